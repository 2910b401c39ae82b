"""What strangers and web pages try on the listener, byte by byte."""

import base64
import datetime
import hmac
import shutil
import socket
import subprocess
import urllib.parse

import pytest

import server
from server import Server, fader

LIST = b"Action=ListDomains&Version=2009-04-15"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


def said(running, head, body=b""):
    """The status, and all that the server answers to these bytes before it hangs up."""
    host, port = running.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        stream.sendall(head + b"\r\n" + body)
        answer = b""
        while more := stream.recv(65536):
            answer += more
    return int(answer.split(b" ", 2)[1]), answer.decode()


def post(host=b"localhost", more=b""):
    size = b"Content-Length: %d\r\n" % len(LIST)
    return b"POST / HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n" + size + FORM + more


@pytest.fixture(scope="module")
def signing(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("signing")) as running:
        yield running


@pytest.fixture(scope="module")
def anonymous(tmp_path_factory):
    flags = ["--anonymous", "--host", "fader.example, other.example"]
    with Server(tmp_path_factory.mktemp("anonymous"), *flags) as running:
        yield running


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        b"GET http://other/ HTTP/1.1\r\nHost: localhost\r\n",
        post(more=b"Transfer-Encoding: chunked\r\n"),
    ],
    ids=["no host", "two hosts", "another host's URI", "two lengths"],
)
def test_a_request_of_two_meanings_is_refused_before_its_signature(signing, head):
    status, answer = said(signing, head, LIST)
    assert status == 400, answer
    assert "AuthMissingFailure" not in answer and "Signature" not in answer


def test_a_program_of_http_1_0_without_a_host_is_answered(signing):
    assert said(signing, b"GET /healthz HTTP/1.0\r\n")[0] == 200


@pytest.mark.parametrize(
    ("host", "more", "status"),
    [
        (b"127.0.0.1:4566", b"", 200),
        (b"localhost", b"", 200),
        (b"FADER.example:80", b"", 200),
        (b"other.example", b"Origin: http://other.example\r\n", 200),
        (b"rebound.example", b"", 403),
        (b"localhost", b"Origin: http://evil.example\r\n", 403),
        (b"localhost", b"Origin: null\r\n", 403),
        (b"localhost", b"Sec-Fetch-Site: cross-site\r\n", 403),
    ],
)
def test_a_foreign_web_page_reaches_no_anonymous_server(anonymous, host, more, status):
    told, answer = said(anonymous, post(host, more), LIST)
    assert told == status, answer
    assert ("ListDomainsResponse" in answer) == (status == 200)


def test_a_page_that_pretends_to_be_signed_is_verified(anonymous):
    body = LIST + b"&Signature=x&AWSAccessKeyId=A&SignatureVersion=2&SignatureMethod=HmacSHA256"
    head = post(b"rebound.example").replace(b"%d" % len(LIST), b"%d" % len(body))
    status, answer = said(anonymous, head, body)
    assert status in (400, 403) and "ListDomainsResponse" not in answer


def test_a_signed_request_may_name_any_host(anonymous):
    """Signatures cover the host: no page has a secret."""
    client = anonymous.client()
    client.meta.events.register(
        "before-sign.sdb",
        lambda request, **_: request.headers.add_header("Origin", "http://evil.example"),
    )
    assert "DomainNames" not in client.list_domains()


def test_expires_is_at_most_a_week_ahead(signing):
    """A signature of version 2 that lives for ever is a key that cannot be taken back."""
    for days, status in [(6, 200), (8, 400)]:
        at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        query = {
            "Action": "ListDomains",
            "Version": "2009-04-15",
            "AWSAccessKeyId": server.ACCESS_KEY,
            "SignatureVersion": "2",
            "SignatureMethod": "HmacSHA256",
            "Expires": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        quote = lambda text: urllib.parse.quote(text, safe="-_.~")
        form = "&".join(f"{quote(name)}={quote(query[name])}" for name in sorted(query))
        message = f"GET\nlocalhost\n/\n{form}".encode()
        digest = hmac.new(server.SECRET_KEY.encode(), message, "sha256").digest()
        form += "&Signature=" + quote(base64.b64encode(digest).decode())
        head = f"GET /?{form} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        told, answer = said(signing, head.encode())
        assert told == status, answer
        assert ("within 7 days" in answer) == (status == 400)


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here")
def test_files_open_to_others_are_reported_with_the_repair(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    certificate, key = self_signed(tmp_path)
    key.chmod(0o644)
    flags = ["--tls-certificate", certificate, "--tls-key", key]
    with Server(tmp_path, *flags, data=data) as running:
        assert f"chmod go-w {data}" in running.log()
        assert f"chmod 600 {key}" in running.log()


def self_signed(folder):
    """As `openssl req -x509` makes them: an authority's by its own words."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    return certificate, key


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here")
def test_a_certificate_that_signs_itself_can_be_trusted(tmp_path):
    certificate, key = self_signed(tmp_path)
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", certificate],
                          check=True, capture_output=True, text=True).stdout
    assert "CA:TRUE" in text
    with Server(tmp_path, "--tls-certificate", certificate, "--tls-key", key) as running:
        environment = server.signing(running.url) | {"AWS_CA_BUNDLE": str(certificate)}
        assert running.url.startswith("https://")
        fader("sdb", "create", "cats", home=tmp_path, **environment)
        assert "cats" in fader("sdb", "domains", home=tmp_path, **environment).stdout


def test_a_limit_is_given_once(tmp_path):
    run = fader("config", "show", "--limit", "gets=1/s,gets=100/s", home=tmp_path, check=False)
    assert run.returncode != 0 and "given twice" in run.stderr
    path = tmp_path / "fader.toml"
    path.write_text("[limits]\nitem-pairs = 1024\nitem-pairs = 2048\n")
    run = fader("config", "show", "--config", path, home=tmp_path, check=False)
    assert run.returncode != 0 and "duplicate" in run.stderr


def test_a_number_is_no_secret_and_is_not_repeated(tmp_path):
    path = tmp_path / "fader.toml"
    path.write_text('[root]\naccess-key = "AKIAEXAMPLEEXAMPLE01"\nsecret-key = 8675309867\n')
    run = fader("config", "show", "--config", path, home=tmp_path, check=False)
    assert run.returncode != 0 and "8675309867" not in run.stderr + run.stdout
    assert "quotation marks" in run.stderr


def test_a_cluster_that_is_refused_leaves_no_key(tmp_path):
    """Nothing listens at that port; a name that is none; each is refused."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
        key = tmp_path / "cluster.key"
        for members in ["n1,n2,n3", "n1,n 2"]:
            run = fader("cluster", "init", "--zookeeper", nowhere, "--cluster-key", key,
                        "--members", members, home=tmp_path, check=False)
            assert run.returncode != 0
            assert not key.exists(), run.stderr
