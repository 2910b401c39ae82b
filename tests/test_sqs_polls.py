"""Clients that go while a receive waits take no message."""

import http.client
import itertools
import socket
import subprocess
import sys
import urllib.parse

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.config import Config

from server import ACCESS_KEY, SECRET_KEY, Server, environment

NUMBERS = itertools.count(1)
SECONDS_MAX = 60


def client_of(server, **config):
    return boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 0}, **config),
    )


@pytest.fixture(scope="module")
def polled(tmp_path_factory):
    """A server of its own: what waits on it is this file's."""
    with Server(tmp_path_factory.mktemp("polls")) as server:
        yield server


@pytest.fixture(scope="module")
def sqs(polled):
    return client_of(polled)


@pytest.fixture
def queue(sqs):
    url = sqs.create_queue(QueueName=f"polled-{next(NUMBERS)}")["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


def given_up(server):
    return server.metric("fader_sqs_receives_given_up_total")


def await_waiting(server):
    server.await_metric("fader_waiting_requests", lambda count: count > 0)


def await_given_up(server, before):
    server.await_metric("fader_sqs_receives_given_up_total", lambda count: before < count)


def poll(server, queue, wait=20):
    """The bytes of a signed receive."""
    request = botocore.awsrequest.AWSRequest(
        method="POST",
        url=server.url + "/",
        data=urllib.parse.urlencode({
            "Action": "ReceiveMessage", "Version": "2012-11-05",
            "QueueUrl": queue, "WaitTimeSeconds": wait,
        }),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    keys = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
    botocore.auth.SigV4Auth(keys, "sqs", "us-east-1").add_auth(request)
    prepared = request.prepare()
    body = prepared.body.encode()
    headers = {**dict(prepared.headers), "Host": f"127.0.0.1:{server.port}"}
    headers["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.1\r\n{head}\r\n".encode() + body


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX)


def bodies(sqs, queue, **more):
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **more)
    return [message["Body"] for message in received.get("Messages", [])]


class Replies:
    """Those of one connection: what is read behind one of them is left for the next."""

    def __init__(self, connection):
        self.file = connection.makefile("rb")

    def makefile(self, _mode):
        return self

    def __getattr__(self, name):
        return getattr(self.file, name)

    def close(self):
        pass


def reply_of(connection):
    reply = http.client.HTTPResponse(connection)
    reply.begin()
    return reply.status, reply.read().decode()


def test_a_client_that_closes_its_connection_takes_no_message(polled, sqs, queue):
    before = given_up(polled)
    gone = connect(polled)
    gone.sendall(poll(polled, queue))
    await_waiting(polled)
    gone.close()
    await_given_up(polled, before)
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    assert bodies(sqs, queue) == ["hello"]


def test_one_that_resets_it_takes_none(polled, sqs, queue):
    before = given_up(polled)
    gone = connect(polled)
    gone.sendall(poll(polled, queue))
    await_waiting(polled)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    gone.close()
    await_given_up(polled, before)
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    assert bodies(sqs, queue) == ["hello"]


def test_a_waiting_client_that_ends_its_half_is_told_of_none(polled, sqs, queue):
    before = given_up(polled)
    with connect(polled) as half:
        half.sendall(poll(polled, queue))
        await_waiting(polled)
        half.shutdown(socket.SHUT_WR)
        await_given_up(polled, before)
        status, text = reply_of(half)
    assert (status, "<Message>" in text) == (200, False)
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    assert bodies(sqs, queue) == ["hello"]


def test_a_half_closed_client_gets_its_messages_at_once(polled, sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    with connect(polled) as half:
        half.sendall(poll(polled, queue))
        half.shutdown(socket.SHUT_WR)
        status, text = reply_of(half)
    assert status == 200 and "<Body>hello</Body>" in text


def test_requests_that_came_behind_a_waiting_one_are_answered(polled, sqs, queue):
    with connect(polled) as pipe:
        replies = Replies(pipe)
        pipe.sendall(poll(polled, queue))
        await_waiting(polled)
        pipe.sendall(poll(polled, queue, wait=0) * 2)
        sqs.send_message(QueueUrl=queue, MessageBody="first")
        status, text = reply_of(replies)
        assert status == 200 and "<Body>first</Body>" in text
        for _ in range(2):
            status, text = reply_of(replies)
            assert status == 200 and "<Message>" not in text


def test_an_sdk_that_is_killed_or_loses_patience_takes_none(polled, sqs, queue, tmp_path):
    before = given_up(polled)
    program = (
        "import boto3, sys\n"
        "sqs = boto3.client('sqs', endpoint_url=sys.argv[1], region_name='us-east-1')\n"
        "sqs.receive_message(QueueUrl=sys.argv[2], WaitTimeSeconds=20)\n"
    )
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    child = subprocess.Popen(
        [sys.executable, "-c", program, polled.url, queue], env=environment(tmp_path, **keys)
    )
    try:
        await_waiting(polled)
    finally:
        child.kill()
        child.wait()
    await_given_up(polled, before)
    impatient = client_of(polled, read_timeout=2)
    with pytest.raises(Exception, match="Read timeout"):
        impatient.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    await_given_up(polled, before + 1)
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    assert bodies(sqs, queue) == ["hello"]


def test_a_server_that_stops_ends_what_waits(tmp_path):
    with Server(tmp_path) as server:
        queue = client_of(server).create_queue(QueueName="jobs")["QueueUrl"]
        with connect(server) as waits:
            waits.sendall(poll(server, queue))
            await_waiting(server)
            assert server.stop() == 0
            status, text = reply_of(waits)
        assert (status, "<Message>" in text) == (200, False)
