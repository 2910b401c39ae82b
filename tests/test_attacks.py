"""What strangers and web pages try on the listener, byte by byte."""

import socket

import pytest

from server import Server

LIST = b"Action=ListDomains&Version=2009-04-15"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


def said(server, head, body=b""):
    """The status, and all that the server answers to these bytes before it hangs up."""
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
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
    with Server(tmp_path_factory.mktemp("signing")) as server:
        yield server


@pytest.fixture(scope="module")
def anonymous(tmp_path_factory):
    flags = ["--anonymous", "--host", "fader.example, other.example"]
    with Server(tmp_path_factory.mktemp("anonymous"), *flags) as server:
        yield server


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
