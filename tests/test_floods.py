"""What floods of connections, bodies and heads do to a server, and to its clients: nothing that
lasts. No caller here has a key, but the clients."""

import contextlib
import re
import resource
import socket
import time
import urllib.error
import urllib.request

import boto3
import pytest
from botocore.config import Config

import server as servers
from server import Server, fader

SECONDS_MAX = 30
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
# A tenth of what a batch waited for while bodies were reserved before they came.
CLIENT = {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 2}}


@pytest.fixture(autouse=True)
def enough_files():
    """Attackers have sockets too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < 6000:
        pytest.skip(f"only {most} open files are allowed here")


def connect(server):
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=SECONDS_MAX)


@contextlib.contextmanager
def flood(server, count, send=b""):
    """So many connections, each of which has sent this, and no more."""
    with contextlib.ExitStack() as stack:
        streams = []
        for _ in range(count):
            stream = stack.enter_context(connect(server))
            with contextlib.suppress(OSError):
                stream.sendall(send)
            streams.append(stream)
        yield streams


def health(server):
    try:
        with urllib.request.urlopen(f"{server.url}/healthz", timeout=SECONDS_MAX) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def batch(number, bytes_each=1000):
    return {
        "DomainName": "floods",
        "Items": [
            {
                "Name": f"{number}-{item}",
                "Attributes": [{"Name": "v", "Value": "x" * bytes_each, "Replace": True}],
            }
            for item in range(25)
        ],
    }


def resident_mb(server):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def with_files(count):
    return "sh", "-c", f'ulimit -n {count} && exec "$@"', "sh"


def test_idle_connections_take_no_file_of_the_store(tmp_path):
    """1,100 idle connections and 10 MB of writes, with 1,024 open files: the process ended with
    code 70."""
    with Server(tmp_path, before=with_files(1024)) as server:
        assert re.search(r"open files: 1024 allowed .* kept for the store, at most \d+ connections",
                         server.log())
        client = server.client(**CLIENT)
        client.create_domain(DomainName="floods")
        with flood(server, 1100):
            for number in range(400):
                client.batch_put_attributes(**batch(number))
            assert health(server)[0] == 200
            assert server.process.poll() is None
        found = client.select(SelectExpression="select count(*) from floods", ConsistentRead=True)
        assert found["Items"][0]["Attributes"][0]["Value"] == "10000"
        assert server.stop() == 0


def test_too_few_files_are_refused_with_what_to_do(tmp_path):
    server = Server(tmp_path, before=with_files(300), wait=False)
    assert server.process.wait(SECONDS_MAX) == 1
    server.process.stdout.close()
    assert "ulimit -n" in server.log()


def test_bodies_that_never_come_delay_no_request(tmp_path):
    """32 announcements of 2 MiB with one byte each delayed a signed batch by 29.7 s."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2097152\r\n" + FORM + b"\r\nA"
    with Server(tmp_path) as server:
        client = server.client(**CLIENT | {"retries": {"max_attempts": 0}})
        client.create_domain(DomainName="floods")
        with flood(server, 64, head):
            # The one that is answered came after all of them.
            assert health(server)[0] == 200
            client.batch_put_attributes(**batch(1))


def test_bodies_that_almost_come_give_way(tmp_path):
    """All the memory for bodies, taken by those that stand still just before their ends."""
    size = 2 << 20
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % size
    body = b"Action=ListDomains&X=".ljust(size - 1, b"x")
    with Server(tmp_path) as server:
        client = server.client(**CLIENT | {"retries": {"max_attempts": 0}})
        client.create_domain(DomainName="floods")
        with flood(server, 40, head + FORM + b"\r\n" + body):
            for number in range(3):
                client.batch_put_attributes(**batch(number))
            assert resident_mb(server) < 300


def test_idle_connections_take_no_place_of_a_client(tmp_path):
    """4,096 of them took all places: clients and the health heard 503. It shows CONN-1."""
    with Server(tmp_path) as server:
        before = server.client(**CLIENT)
        before.create_domain(DomainName="floods")
        with flood(server, 4200):
            assert health(server)[0] == 200
            assert "floods" in before.list_domains()["DomainNames"]
            assert "floods" in server.client(**CLIENT).list_domains()["DomainNames"]
            assert resident_mb(server) < 300


def test_partial_heads_take_little_memory(tmp_path):
    """3,900 of 47 KB took 639 MB."""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 15000
    head += b"\r\nY: " + b"y" * 15000 + b"\r\nZ: " + b"z" * 15000
    with Server(tmp_path) as server:
        client = server.client(**CLIENT)
        client.create_domain(DomainName="floods")
        with flood(server, 3900, head):
            assert health(server)[0] == 200
            client.batch_put_attributes(**batch(1))
            assert resident_mb(server) < 300


def queues(server):
    return boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=server.url,
        aws_access_key_id=servers.ACCESS_KEY,
        aws_secret_access_key=servers.SECRET_KEY,
        config=Config(**CLIENT),
    )


def test_a_long_poll_is_no_idle_connection(tmp_path):
    """It keeps its place however many connections come and go."""
    flags = ["--connections-max", "64"]
    with Server(tmp_path, *flags) as server:
        sqs = queues(server)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        with connect(server) as waiting:
            signed = {"QueueUrl": url, "WaitTimeSeconds": 20}
            send_signed(sqs, waiting, signed)
            with flood(server, 200):
                assert health(server)[0] == 200
                queues(server).send_message(QueueUrl=url, MessageBody="hello")
                assert b"hello" in waiting.recv(65536)


def send_signed(sqs, stream, parameters):
    """Sends what boto3 would, on a stream of our own."""
    sent = []

    def take(request, **_):
        sent.append(request)
        raise InterruptedError

    sqs.meta.events.register("before-send.sqs", take)
    with contextlib.suppress(Exception):
        sqs.receive_message(**parameters)
    request = sent[0]
    host, port = stream.getpeername()
    head = f"POST / HTTP/1.1\r\nHost: {host}:{port}\r\n"
    for name, value in request.headers.items():
        value = value.decode() if isinstance(value, bytes) else value
        head += f"{name}: {value}\r\n"
    stream.sendall(head.encode() + b"\r\n" + request.body)


def test_an_address_has_half_of_the_places(tmp_path):
    """Where all of its own are at work, the next one of the address hears so, and the health."""
    flags = ["--connections-max", "64", "--connections-per-address", "2"]
    with Server(tmp_path, *flags) as server:
        sqs = queues(server)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                waiting = stack.enter_context(connect(server))
                send_signed(queues(server), waiting, {"QueueUrl": url, "WaitTimeSeconds": 20})
            end = time.monotonic() + SECONDS_MAX
            while (refused := said(server)) != "connections":
                assert time.monotonic() < end, refused
                time.sleep(0.05)
            assert health(server)[0] == 200
        assert fader("keys", "list", "--data", server.data, home=tmp_path).returncode == 0


def said(server):
    """The reason of a refusal, if this is one."""
    request = urllib.request.Request(server.url, data=b"Action=ListDomains&Version=2009-04-15")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX):
            return None
    except urllib.error.HTTPError as error:
        return error.headers["x-fader-reason"]


def test_the_control_socket_has_places_of_its_own(tmp_path):
    """It shows CONN-1."""
    with Server(tmp_path, "--connections-max", "20") as server:
        with flood(server, 200, b"GET / HTTP/1.1\r\n"):
            listed = fader("keys", "list", "--data", server.data, home=tmp_path)
            assert servers.ACCESS_KEY in listed.stdout


def test_refusals_are_counted_in_few_lines(tmp_path):
    with Server(tmp_path) as server:
        for _ in range(300):
            assert said(server) is None
        server.stop()
        lines = [line for line in server.log().splitlines() if "AuthMissingFailure" in line]
        assert 1 <= len(lines) <= 5, lines
