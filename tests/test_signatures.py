"""Who may ask: signature versions 2 and 4, wrong keys, old requests, anonymous requests, TLS."""

import base64
import datetime
import hmac
import http.client
import re
import signal
import ssl
import time
import urllib.parse

import pytest
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import server as servers
from sdb_calls import get, put, refused
from server import ACCESS_KEY, SECRET_KEY, Server

XML_ERROR = re.compile(r"<Code>(\w+)</Code>")


def now(**offset):
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(**offset)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(parameters):
    quote = urllib.parse.quote
    pairs = sorted(parameters.items())
    return "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in pairs)


def signed(host, method="POST", digest="sha256", secret=SECRET_KEY, **parameters):
    """The parameters of a request signed with version 2, as a form."""
    parameters = {
        "AWSAccessKeyId": ACCESS_KEY,
        "SignatureVersion": "2",
        "SignatureMethod": f"Hmac{digest.upper()}",
        "Version": "2009-04-15",
        "Timestamp": now(),
        **parameters,
    }
    text = "\n".join([method, host, "/", encode(parameters)])
    signature = hmac.new(secret.encode(), text.encode(), digest).digest()
    return encode({**parameters, "Signature": base64.b64encode(signature).decode()})


def send(server, method="POST", target="/", body="", host=None):
    """The status and the text of the reply."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Host": host or f"127.0.0.1:{server.port}"}
    if method == "POST":
        headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
    connection.request(method, target, body=body, headers=headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def code(text):
    return XML_ERROR.search(text).group(1)


@pytest.fixture
def host(server):
    return f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("version", ["v2", "v4"])
def test_both_signature_versions_of_boto3(server, domain, version):
    sdb = server.client(signature_version=version)
    put(sdb, domain, "item é &+=", a="1 + 1 = 2 ~*")
    assert get(sdb, domain, "item é &+=") == {"a": ["1 + 1 = 2 ~*"]}


@pytest.mark.parametrize("version", ["v2", "v4"])
def test_a_wrong_secret_is_refused(server, version):
    sdb = servers.client(server.url, secret_key="wrong", signature_version=version)
    with refused("SignatureDoesNotMatch", 403):
        sdb.list_domains()


@pytest.mark.parametrize("version", ["v2", "v4"])
def test_an_unknown_key_is_refused(server, version):
    sdb = servers.client(server.url, access_key="NOSUCHKEY00000000000", signature_version=version)
    with refused("InvalidClientTokenId", 403):
        sdb.list_domains()


@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_get_and_post_with_both_digests(server, host, digest):
    body = signed(host, digest=digest, Action="ListDomains")
    assert send(server, body=body)[0] == 200
    query = signed(host, method="GET", digest=digest, Action="ListDomains")
    assert send(server, method="GET", target=f"/?{query}")[0] == 200


def test_the_host_is_signed_as_it_was_sent(server):
    # boto 2 leaves the port out of the header, and of what it signs.
    body = signed("localhost", Action="ListDomains")
    assert send(server, body=body, host="localhost")[0] == 200
    status, text = send(server, body=body, host="elsewhere")
    assert (status, code(text)) == (403, "SignatureDoesNotMatch")


def test_a_changed_parameter_is_refused(server, host):
    body = signed(host, Action="CreateDomain", DomainName="mine")
    status, text = send(server, body=body.replace("mine", "yours"))
    assert (status, code(text)) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("minutes", [-16, 16])
def test_requests_of_another_time_are_refused(server, host, minutes):
    body = signed(host, Action="ListDomains", Timestamp=now(minutes=minutes))
    status, text = send(server, body=body)
    assert (status, code(text)) == (400, "RequestExpired")


def test_requests_of_about_now_are_served(server, host):
    for minutes in [-14, 14]:
        body = signed(host, Action="ListDomains", Timestamp=now(minutes=minutes))
        assert send(server, body=body)[0] == 200
    stamp = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=-7)))
    text = stamp.isoformat(timespec="milliseconds")
    body = signed(host, Action="ListDomains", Timestamp=text)
    assert send(server, body=body)[0] == 200


def test_unsigned_requests_are_refused(server):
    status, _ = send(server, body="Action=ListDomains&Version=2009-04-15")
    assert 400 <= status < 500


def test_unknown_actions_and_versions_are_refused(server, host):
    status, text = send(server, body=signed(host, Action="Dance"))
    assert (status, code(text)) == (400, "InvalidAction")
    status, text = send(server, body=signed(host, Action="ListDomains", Version="1999-01-01"))
    assert (status, code(text)) == (400, "NoSuchVersion")


def test_the_query_action_of_2007(server, host, sdb, domain):
    put(sdb, domain, "one", color="red")
    put(sdb, domain, "two", color="blue")
    body = signed(
        host,
        Action="Query",
        Version="2007-11-07",
        DomainName=domain,
        QueryExpression="['color' = 'red']",
    )
    status, text = send(server, body=body)
    assert status == 200, text
    assert re.findall(r"<ItemName>(\w+)</ItemName>", text) == ["one"]


def test_anonymous_requests_where_they_are_allowed(tmp_path):
    with Server(tmp_path, "--anonymous") as server:
        version = "Version=2009-04-15"
        status, _ = send(server, body=f"Action=CreateDomain&DomainName=open&{version}")
        assert status == 200
        # The same account as the first key's, and signatures are verified all the same.
        assert server.client().list_domains()["DomainNames"] == ["open"]
        wrong = servers.client(server.url, secret_key="wrong")
        with pytest.raises(ClientError):
            wrong.list_domains()


def certificate(folder):
    """A self-signed certificate for localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = datetime.datetime.now(datetime.timezone.utc)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(built.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return folder / "certificate.pem", folder / "key.pem"


def test_an_anonymous_server_prints_no_secret(tmp_path):
    with Server(tmp_path, "--anonymous", root=False) as server:
        status, text = send(server, body="Action=ListDomains&Version=2009-04-15")
        assert status == 200, text
        keys = servers.fader("keys", "list", "--data", server.data, home=tmp_path).stdout
        assert "AKIA" not in keys, keys
        assert "SECRET" not in server.log()
    # Who wants signatures from then on is given a key.
    with Server(tmp_path, root=False) as server:
        assert "AWS_SECRET_ACCESS_KEY" in server.log()


def test_tls(tmp_path):
    chain, key = certificate(tmp_path)
    with Server(tmp_path, "--tls-certificate", chain, "--tls-key", key) as server:
        assert server.url.startswith("https://")
        url = f"https://localhost:{server.port}"
        sdb = servers.client(url, verify=str(chain))
        sdb.create_domain(DomainName="private")
        assert sdb.list_domains()["DomainNames"] == ["private"]
        run = servers.fader(
            "sdb", "domains", "--ca-bundle", chain, home=tmp_path, **servers.signing(url)
        )
        assert run.stdout == "private\n"
        trusting = ssl.create_default_context(cafile=chain)
        trusting.maximum_version = ssl.TLSVersion.TLSv1_2
        connection = http.client.HTTPSConnection("localhost", server.port, context=trusting)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200


def shown_certificate(server):
    """The certificate that a new connection is shown, in PEM."""
    return ssl.get_server_certificate(("127.0.0.1", server.port), timeout=30)


def test_a_hangup_reloads_tls_and_the_log_level_and_ends_nothing(tmp_path):
    """It shows RELOAD-1 and RELOAD-3."""
    chain, key = certificate(tmp_path)
    first = chain.read_text()
    settings = tmp_path / "fader.toml"
    settings.write_text('log-level = "info"\n')
    flags = ["--config", settings, "--tls-certificate", chain, "--tls-key", key]
    with Server(tmp_path, *flags) as server:
        assert shown_certificate(server) == first
        health = "answered"
        certificate(tmp_path)
        settings.write_text('log-level = "info,fader_gateway=debug"\n')
        server.process.send_signal(signal.SIGHUP)
        server.await_log("are read again")
        assert shown_certificate(server) == chain.read_text() != first
        assert health not in server.log()
        sdb = servers.client(f"https://localhost:{server.port}", verify=str(chain))
        sdb.list_domains()
        server.await_log(health)
        # What cannot be read changes nothing, and ends nothing.
        second = chain.read_text()
        for broken, text in [(chain, "no certificate"), (settings, "log-level = 3"),
                             (settings, 'log-level = "=="')]:
            whole, count = broken.read_text(), server.log().count("nothing is changed")
            broken.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            for _ in range(600):
                if count < server.log().count("nothing is changed"):
                    break
                time.sleep(0.05)
            assert count < server.log().count("nothing is changed"), server.log()
            broken.write_text(whole)
            assert shown_certificate(server) == second
        sdb.list_domains()
        assert server.process.poll() is None


def test_health_and_metrics_need_no_key(server):
    status, text = send(server, method="GET", target="/healthz")
    assert status == 200, text
    status, text = send(server, method="GET", target="/metrics")
    assert status == 200
    assert "# TYPE" in text
