"""Queues of the mode mixed: eventual sends to a real cluster, and what becomes of them."""

import concurrent.futures
import contextlib
import functools
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import loads
from server import ACCESS_KEY, SECRET_KEY, Cluster, Server
from sqs_calls import bodies, refused

SECONDS_MAX = 90


def sqs_of(server, **headers):
    """A client, with these headers on each of its requests."""
    client = boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 0}, read_timeout=40),
    )

    def add(request, **_):
        for name, value in headers.items():
            request.headers[name.replace("_", "-")] = value

    client.meta.events.register("before-sign.sqs", add)
    return client


def eventual(server, level="eventual; w=2", **headers):
    return sqs_of(server, x_fader_consistency=level, **headers)


def drain(sqs, queue, wanted):
    """Receives and deletes until all that is wanted was received; what was, in order."""
    seen = []
    deadline = time.monotonic() + SECONDS_MAX
    while not set(wanted) <= set(seen):
        assert time.monotonic() < deadline, set(wanted) - set(seen)
        with contextlib.suppress(BotoCoreError, ClientError):
            received = sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            for message in received.get("Messages", []):
                seen.append(message["Body"])
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return seen


def test_a_mode_of_a_queue_is_changed(tmp_path):
    with Server(tmp_path) as server:
        sqs = sqs_of(server)
        queue = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        sqs.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})
        loose = eventual(server, "eventual")
        assert server.mode("jobs", "--queue") == "jobs: strong\n"
        with refused("AWS.SimpleQueueService.UnsupportedOperation"):
            loose.send_message(QueueUrl=queue, MessageBody="x")
        assert server.mode("jobs", "mixed", "--queue") == "jobs: mixed\n"
        loose.send_message(QueueUrl=queue, MessageBody="loose")
        sqs.send_message(QueueUrl=queue, MessageBody="strict")
        assert sorted(drain(sqs, queue, ["loose", "strict"])) == ["loose", "strict"]
        with refused("AWS.SimpleQueueService.UnsupportedOperation"):
            loose.receive_message(QueueUrl=queue)
        assert server.mode("jobs", "strong", "--wait", "--queue") == "jobs: strong\n"
        with refused("AWS.SimpleQueueService.UnsupportedOperation"):
            loose.send_message(QueueUrl=queue, MessageBody="x")
        for words, reason in [
            (["jobs", "eventual", "--queue"], "A queue cannot have the mode eventual"),
            (["jobs.fifo", "mixed", "--queue"], "A FIFO queue cannot have the mode mixed"),
            (["absent", "mixed", "--queue"], "absent"),
            (["jobs", "mixed"], "no domain jobs"),
        ]:
            with pytest.raises(RuntimeError, match=reason):
                server.mode(*words)


def test_fifo_queues_take_no_eventual_sends(tmp_path):
    with Server(tmp_path) as server:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        created = sqs_of(server).create_queue(QueueName="jobs.fifo", Attributes=attributes)
        with refused("AWS.SimpleQueueService.UnsupportedOperation"):
            eventual(server, "eventual").send_message(
                QueueUrl=created["QueueUrl"], MessageBody="x", MessageGroupId="g"
            )
        with refused("InvalidParameterValue"):
            mixed = sqs_of(server, x_fader_collection_mode="mixed")
            mixed.create_queue(QueueName="other.fifo", Attributes={"FifoQueue": "true"})


def test_a_send_at_w_members_is_received_after_its_promotion_and_never_lost(tmp_path):
    with Cluster(tmp_path) as cluster, concurrent.futures.ThreadPoolExecutor() as beside:
        created = sqs_of(cluster, x_fader_collection_mode="mixed").create_queue(QueueName="jobs")
        queue = created["QueueUrl"]
        with Load(cluster, queue) as load:
            load.await_more()
            roles = cluster.roles()[1]
            # A member that is not the head, and then the head, go and come back.
            for victim in sorted(roles, key=lambda name: roles[name] == "head")[1:]:
                cluster.order("kill", victim)
                load.await_more()
                cluster.order("restart", victim)
                cluster.await_roles(lambda now: "down" not in now.values())
                load.await_more()
            load.is_ending = True
        sent = dict(load.acknowledged)
        received = beside.submit(drain, sqs_of(cluster), queue, sent).result()
        assert set(sent) <= set(received)
        assert cluster.mode("jobs", "strong", "--wait", "--queue") == "jobs: strong\n"
        assert bodies(sqs_of(cluster), queue) == []
        assert cluster.stop() == 0, cluster.log()


class Load(loads.Load):
    """Writers that note which eventual sends were acknowledged, with their ids."""

    def __init__(self, cluster, queue):
        super().__init__(*(functools.partial(self.send, number) for number in range(3)))
        self.cluster, self.queue = cluster, queue
        self.acknowledged = {}

    def begin(self):
        """The queue is there."""

    def send(self, number):
        sqs = eventual(self.cluster)
        serial = 0
        while not self.is_ending:
            serial += 1
            body = f"{number}-{serial}"
            with contextlib.suppress(BotoCoreError, ClientError):
                sent = sqs.send_message(QueueUrl=self.queue, MessageBody=body)
                with self.changed:
                    self.acknowledged[body] = sent["MessageId"]
                    self.changed.notify_all()

    def await_more(self, count=20):
        """Waits until some more sends were acknowledged."""
        goal = len(self.acknowledged) + count
        self.await_that(lambda: goal <= len(self.acknowledged), seconds=60)


@pytest.mark.parametrize("level", ["strong", "eventual; w=2"])
def test_a_send_that_is_repeated_under_its_name_has_its_id(tmp_path, level):
    with Cluster(tmp_path) as cluster:
        created = sqs_of(cluster, x_fader_collection_mode="mixed").create_queue(QueueName="jobs")
        queue = created["QueueUrl"]
        named = sqs_of(cluster, x_fader_consistency=level, x_fader_request="ab12/1")
        entries = [{"Id": str(at), "MessageBody": f"body {at}"} for at in range(3)]

        def send():
            sent = named.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
            return {entry["Id"]: entry["MessageId"] for entry in sent}

        first = send()
        assert len(first) == 3
        for _ in range(3):
            assert send() == first
        wanted = [entry["MessageBody"] for entry in entries]
        assert sorted(drain(sqs_of(cluster), queue, wanted)) == wanted
        # What is asked under a name that another request has is refused.
        entries.append({"Id": "3", "MessageBody": "more"})
        with refused("InvalidParameterValue"):
            send()
        assert cluster.mode("jobs", "strong", "--wait", "--queue") == "jobs: strong\n"
        assert bodies(sqs_of(cluster), queue) == []
