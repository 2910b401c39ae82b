"""What operators of SQS have: metrics, limits, keys with granted rights, modes."""

import concurrent.futures
import itertools
import json
import urllib.request

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config

from server import ACCESS_KEY, SECRET_KEY, Server, client, fader
from sqs_calls import bodies, refused

NUMBERS = itertools.count(1)
SECONDS_MAX = 60


def sqs_of(server, key=ACCESS_KEY, secret=SECRET_KEY):
    return boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"max_attempts": 0}, read_timeout=40, max_pool_connections=32),
    )


@pytest.fixture
def queue(server):
    sqs = sqs_of(server)
    url = sqs.create_queue(QueueName=f"operated-{next(NUMBERS)}")["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


def metrics(server):
    with urllib.request.urlopen(f"{server.url}/metrics") as page:
        lines = page.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def of_queue(server, queue):
    """The metrics of one queue, by name."""
    labels = f'{{account="000000000001",queue="{queue.rsplit("/", 1)[1]}"}}'
    shown = metrics(server).items()
    return {
        name.removesuffix(labels).removeprefix("fader_sqs_"): int(value)
        for name, value in shown
        if name.endswith(labels)
    }


def test_each_queue_has_metrics(server, queue):
    sqs = sqs_of(server)
    dead = sqs.create_queue(QueueName=f"operated-{next(NUMBERS)}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    arn = arn["Attributes"]["QueueArn"]
    for body in "abc":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    sqs.send_message(QueueUrl=queue, MessageBody="d", DelaySeconds=900)
    held = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=2)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=held[0]["ReceiptHandle"])
    assert bodies(sqs, queue) == ["c"]
    assert bodies(sqs, queue) == []
    shown = of_queue(server, queue)
    assert shown.pop("oldest_message_seconds") >= 0
    assert shown == {
        "visible_messages": 0, "in_flight_messages": 2, "delayed_messages": 1,
        "sent_messages_total": 4, "received_messages_total": 3, "deleted_messages_total": 1,
        "moved_messages_total": 0, "expired_messages_total": 0, "empty_receives_total": 1,
    }
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    attributes = {"RedrivePolicy": policy}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    handle = held[1]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    assert bodies(sqs, queue) == []
    assert of_queue(server, queue)["moved_messages_total"] == 1
    assert of_queue(server, dead)["visible_messages"] == 1
    assert of_queue(server, dead)["sent_messages_total"] == 0
    page = metrics(server)
    assert int(page['fader_requests_total{action="SendMessage",code="ok"}']) >= 4
    assert int(page['fader_request_duration_seconds_count{action="SendMessage"}']) >= 4
    sqs.delete_queue(QueueUrl=dead)
    assert of_queue(server, dead) == {}


def test_queues_beyond_a_thousand_share_a_series(tmp_path):
    with Server(tmp_path) as server:
        sqs = sqs_of(server)

        def create(at):
            return sqs.create_queue(QueueName=f"queue-{at:04}")["QueueUrl"]

        # Side by side, so that they share syncs.
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            last = list(pool.map(create, range(1003)))[-1]
        sqs.send_message(QueueUrl=last, MessageBody="x")
        page = metrics(server)
        visible = [name for name in page if name.startswith("fader_sqs_visible_messages")]
        assert len(visible) == 1001
        assert page['fader_sqs_visible_messages{account="",queue=""}'] == "1"
        assert of_queue(server, last) == {}


def test_a_limit_refuses_as_aws_does(tmp_path):
    with Server(tmp_path, "--limit", "puts=0.000001/s+3,gets=0.000001/s+1") as server:
        sqs = sqs_of(server)
        queue = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        for body in "ab":
            sqs.send_message(QueueUrl=queue, MessageBody=body)
        with refused("RequestThrottled", 403):
            sqs.send_message(QueueUrl=queue, MessageBody="c")
        with refused("RequestThrottled", 403):
            sqs.receive_message(QueueUrl=queue)
        counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert counts["ApproximateNumberOfMessages"] == "2"
        try:
            sqs.get_queue_url(QueueName="jobs")
            raise AssertionError("it is not refused")
        except sqs.exceptions.RequestThrottled as error:
            headers = error.response["ResponseMetadata"]["HTTPHeaders"]
            assert headers["x-amzn-query-error"] == "RequestThrottled;Sender"
            assert headers["x-fader-reason"] == "limit"
        page = metrics(server)
        assert page['fader_limit_requests_total{class="puts",outcome="refused"}'] == "2"


def granted_key(server):
    done = fader("keys", "create", "--granted-only", "--data", server.data, home=server.folder)
    words = dict(line.rsplit(None, 1) for line in done.stdout.splitlines())
    key, secret = words["access key"], words["secret key"]
    assert words["policies name"] == f"arn:aws:iam::000000000001:user/{key}"
    return key, secret


def test_a_key_with_granted_rights_has_only_what_policies_give_it(tmp_path):
    with Server(tmp_path) as server:
        owner = sqs_of(server)
        queue = owner.create_queue(QueueName="jobs")["QueueUrl"]
        key, secret = granted_key(server)
        granted = sqs_of(server, key, secret)

        def send():
            return granted.send_message(QueueUrl=queue, MessageBody="x")

        for call in (
            send,
            lambda: granted.receive_message(QueueUrl=queue),
            lambda: granted.get_queue_url(QueueName="jobs"),
            lambda: granted.create_queue(QueueName="mine"),
            lambda: granted.list_queues(),
            lambda: granted.delete_queue(QueueUrl=queue),
        ):
            with refused("AccessDenied", 403):
                call()
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::000000000001:user/{key}"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        owner.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
        send()
        with refused("AccessDenied", 403):
            granted.receive_message(QueueUrl=queue)
        assert bodies(owner, queue) == ["x"]
        simpledb = client(server.url, key, secret)
        for call in (
            lambda: simpledb.list_domains(),
            lambda: simpledb.create_domain(DomainName="cats"),
            lambda: simpledb.select(SelectExpression="select * from cats"),
        ):
            with pytest.raises(botocore.exceptions.ClientError) as refusal:
                call()
            assert refusal.value.response["Error"]["Code"] == "AccessFailure"
            assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        listed = fader("keys", "list", "--data", server.data, home=tmp_path).stdout
        assert [line for line in listed.splitlines() if key in line and "granted" in line]
        server.kill()
    with Server(tmp_path) as server:
        rotated = fader("keys", "rotate", key, "--data", server.data, home=tmp_path).stdout
        words = dict(line.rsplit(None, 1) for line in rotated.splitlines())
        rotated = sqs_of(server, words["access key"], words["secret key"])
        with refused("AccessDenied", 403):
            rotated.list_queues()
        with refused("InvalidClientTokenId", 403):
            sqs_of(server, key, secret).list_queues()
