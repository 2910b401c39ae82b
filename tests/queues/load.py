"""Producers and consumers of a standard queue and of a FIFO queue, through boto3.

Each body is sent once, but to the FIFO queue, where a producer asks again under the same
deduplication id until it is told. A consumer deletes what it receives, at once or late."""

import collections
import contextlib
import itertools
import random
import threading
import time

import boto3
import botocore.exceptions
from botocore.config import Config

import server as servers

STANDARD, FIFO = "siege", "siege.fifo"
VISIBILITY_SECONDS = 4
TIMEOUT_SECONDS = 3
PATIENCE_SECONDS = 60
# Messages of one producer that are there at most, so that consumers keep up.
AHEAD_MAX = 200


class Told:
    """What a call came to: `ok`, `refused`, or `unknown`; with its times in seconds."""

    def __init__(self, outcome, reply, start):
        self.outcome, self.reply = outcome, reply
        self.start, self.end = start, time.monotonic()


class Caller:
    """A client of all members, one asked after the other by chance."""

    def __init__(self, urls, chance):
        settings = Config(
            retries={"max_attempts": 0}, connect_timeout=1, read_timeout=TIMEOUT_SECONDS + 1,
        )
        session = boto3.session.Session()
        self.clients = [
            session.client(
                "sqs", endpoint_url=url, region_name="us-east-1", config=settings,
                aws_access_key_id=servers.ACCESS_KEY, aws_secret_access_key=servers.SECRET_KEY,
            )
            for url in urls
        ]
        self.chance = chance

    def ask(self, action, queue, **parameters):
        client = self.chance.choice(self.clients)
        # The queue's path: the host that is asked is another one each time.
        url = f"{client.meta.endpoint_url}/000000000001/{queue}"
        start = time.monotonic()
        try:
            return Told("ok", getattr(client, action)(QueueUrl=url, **parameters), start)
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            outcome = "unknown" if 500 <= status or status == 408 else "refused"
            return Told(outcome, str(error), start)
        except botocore.exceptions.EndpointConnectionError as error:
            return Told("unsent", str(error), start)
        except (botocore.exceptions.BotoCoreError, OSError) as error:
            return Told("unknown", repr(error), start)


class Load:
    """Clients at work, and what they wrote down."""

    def __init__(self, urls, seed, producers=2, consumers=2):
        self.urls, self.seed = urls, seed
        self.lock = threading.Lock()
        self.lines = []
        self.counts = collections.Counter()
        self.errors = []
        self.is_ending = self.is_drained = False
        self.there = collections.Counter()
        works = []
        for queue in [STANDARD, FIFO]:
            works += [(self._produce, queue, number) for number in range(producers)]
            works += [(self._consume, queue, number) for number in range(consumers)]
        self.threads = [
            threading.Thread(target=self._work, args=work, daemon=True) for work in works
        ]

    def create(self):
        """The queues, as soon as they can be made."""
        caller = Caller(self.urls, random.Random(self.seed))
        for name, attributes in [(STANDARD, {}), (FIFO, {"FifoQueue": "true"})]:
            attributes["VisibilityTimeout"] = str(VISIBILITY_SECONDS)
            end = time.monotonic() + PATIENCE_SECONDS
            while True:
                with contextlib.suppress(botocore.exceptions.BotoCoreError,
                                         botocore.exceptions.ClientError):
                    caller.clients[0].create_queue(QueueName=name, Attributes=attributes)
                    break
                assert time.monotonic() < end, f"{name} cannot be created"
                time.sleep(0.1)

    def note(self, what, queue, told, **more):
        with self.lock:
            self.counts[f"{what} {told.outcome}"] += 1
            self.lines.append({"what": what, "queue": queue, "outcome": told.outcome,
                               "start": told.start, "end": told.end, **more})

    def note_fault(self, **_):
        """What is done to a cluster excuses nothing here."""

    def _work(self, work, queue, number):
        chance = random.Random(f"{self.seed}/{work.__name__}/{queue}/{number}")
        try:
            work(Caller(self.urls, chance), chance, queue, number)
        except Exception as error:  # noqa: BLE001
            self.errors.append(f"{work.__name__} {number} of {queue}: {error!r}")
            raise

    def _produce(self, caller, chance, queue, number):
        is_fifo = queue == FIFO
        for serial in itertools.count(1):
            body = f"{number}.{serial}"
            more = {"MessageGroupId": str(number), "MessageDeduplicationId": body}
            while not self.is_ending and AHEAD_MAX < self.there[queue]:
                time.sleep(0.05)
            while not self.is_ending:
                told = caller.ask("send_message", queue, MessageBody=body,
                                  **(more if is_fifo else {}))
                id_ = told.reply["MessageId"] if told.outcome == "ok" else None
                self.note("send", queue, told, body=body, id=id_)
                if told.outcome == "ok" or not is_fifo:
                    break
                time.sleep(0.05)
            if self.is_ending:
                return
            self.there[queue] += told.outcome == "ok"
            time.sleep(chance.uniform(0, 0.04) if told.outcome == "ok" else 0.05)

    def _consume(self, caller, chance, queue, number):
        while not self.is_drained:
            told = caller.ask("receive_message", queue, MaxNumberOfMessages=chance.choice([1, 10]),
                              WaitTimeSeconds=chance.choice([0, 1]))
            if told.outcome != "ok":
                self.note("receive", queue, told, messages=[])
                time.sleep(0.05)
                continue
            messages = told.reply.get("Messages", [])
            self.note("receive", queue, told,
                      messages=[(message["Body"], message["MessageId"]) for message in messages])
            if not messages:
                time.sleep(0.02)
            # One message in fifty comes again when its visibility ends.
            for message in messages:
                if not self.is_ending and chance.random() < 0.02:
                    continue
                deleted = caller.ask("delete_message", queue,
                                     ReceiptHandle=message["ReceiptHandle"])
                self.note("delete", queue, deleted, body=message["Body"], received=told.start)
                self.there[queue] -= deleted.outcome == "ok"
                if is_order_lost(queue, deleted):
                    break

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending = self.is_drained = True
        for thread in self.threads:
            thread.join()

    def await_acknowledged(self, count, seconds):
        """Waits until so many sends more were acknowledged."""
        goal = self.counts["send ok"] + count
        end = time.monotonic() + seconds
        while self.counts["send ok"] < goal:
            if end < time.monotonic():
                return False
            time.sleep(0.05)
        return True

    def drain(self):
        """Sends no more, and waits until the queues are empty; whether they are."""
        self.is_ending = True
        caller = Caller(self.urls, random.Random(self.seed))
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            if all(left_in(caller, queue) == 0 for queue in [STANDARD, FIFO]):
                return True
            time.sleep(0.2)
        return False


def is_order_lost(queue, deleted):
    """Whether those behind in a group would be deleted before one that is there yet."""
    return queue == FIFO and deleted.outcome != "ok"


def left_in(caller, queue):
    """Messages that a queue has; nothing if that is not told."""
    told = caller.ask("get_queue_attributes", queue, AttributeNames=["All"])
    if told.outcome != "ok":
        return None
    attributes = told.reply["Attributes"]
    return sum(int(count) for name, count in attributes.items()
               if name.startswith("ApproximateNumberOfMessages"))
