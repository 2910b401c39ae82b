"""Writers and readers of buckets, through boto3.

Each writer has keys of its own and knows what they may hold. That is the last body that was
acknowledged, and those whose outcome is unknown since; one of those may still come a while later. A
body says of itself which it is, so that half of one, or a mix of two, is seen by each reader.
Racers put one key at once, each on the condition that there is none: one wins."""

import collections
import concurrent.futures
import contextlib
import hashlib
import itertools
import random
import threading
import time

import boto3
import botocore.exceptions
from botocore.config import Config

import server as servers
from objects.comers import PATIENCE_SECONDS, Comer

BUCKETS = ["siege"]
KEYS = 4
TIMEOUT_SECONDS = 8
PART_BYTES = 5 << 20
SIZES = [40, 5_000, 20_000, 300_000, 5_000_000]
# How long a request may take effect of which nothing is known: a server may have stood still.
LATE_SECONDS = 60
RACERS = 4
# A name of 32 digits, then bytes that follow from it.
NAME_BYTES = 32

# A key that has no object.
NOTHING = None


def body_of(name, size):
    """A body that says which it is."""
    seed = hashlib.md5(name.encode()).hexdigest()
    return seed.encode() + random.Random(seed).randbytes(max(0, size - NAME_BYTES))


def is_whole(body):
    """Whether a body is all that it says it is."""
    seed = body[:NAME_BYTES].decode()
    return body == seed.encode() + random.Random(seed).randbytes(max(0, len(body) - NAME_BYTES))


def bucket_of(load, key):
    """Keys are spread over the buckets by their last numbers."""
    return load.buckets[int(key.rsplit("/", 1)[1]) % len(load.buckets)]


def client_of(url, timeout=TIMEOUT_SECONDS):
    settings = Config(
        retries={"max_attempts": 0}, connect_timeout=1, read_timeout=timeout,
        s3={"addressing_style": "path"},
    )
    return boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", config=settings,
        aws_access_key_id=servers.ACCESS_KEY, aws_secret_access_key=servers.SECRET_KEY,
    )


class Writer:
    """Writes to its keys, at one server as long as that answers, and knows what they may hold."""

    def __init__(self, load, number):
        self.load, self.number = load, number
        self.chance = random.Random(f"{load.seed}/{number}")
        self.clients = load.clients()
        self.turn = number
        self.serial = 0
        self.may = {f"{number}/{key}": {NOTHING} for key in range(KEYS)}
        # Of each key: what may still come, and until when.
        self.late = {key: {} for key in self.may}

    @property
    def client(self):
        return self.clients[self.turn % len(self.clients)]

    def work(self):
        while not self.load.is_ending:
            self.serial += 1
            key = self.chance.choice(list(self.may))
            before = set(self.may[key])
            deed = self.chance.choices(
                [self._put, self._copy, self._parts, self._delete], [8, 2, 1, 2],
            )[0]
            try:
                becomes = deed(key)
            except botocore.exceptions.ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if status < 500:
                    self.load.errors.append(f"{deed.__name__} {key}: {error}")
                self.load.count(f"{deed.__name__} refused")
                self._is_late(key, before)
                time.sleep(0.05)
                continue
            except (botocore.exceptions.BotoCoreError, OSError):
                self.load.count(f"{deed.__name__} unknown")
                self._is_late(key, before)
                self.turn += 1
                time.sleep(0.05)
                continue
            self.may[key] = {becomes} | self._still_late(key)
            self.load.count("ok")

    def _is_late(self, key, before):
        until = time.monotonic() + LATE_SECONDS
        self.late[key].update({digest: until for digest in self.may[key] - before})

    def _still_late(self, key):
        now = time.monotonic()
        return {digest for digest, until in self.late[key].items() if now < until}

    def _body(self, size):
        return body_of(f"{self.load.seed}/{self.number}/{self.serial}", size)

    def _put(self, key):
        size = self.chance.choice(self.load.sizes)
        body = self._body(size)
        self.may[key].add(hashlib.md5(body).hexdigest())
        self.client.put_object(Bucket=bucket_of(self.load, key), Key=key, Body=body)
        return hashlib.md5(body).hexdigest()

    def _copy(self, key):
        others = [other for other, may in self.may.items() if other != key and len(may) == 1]
        source = self.chance.choice(others) if others else None
        if source is None or self.may[source] == {NOTHING}:
            return self._put(key)
        [digest] = self.may[source]
        self.may[key].add(digest)
        source = {"Bucket": bucket_of(self.load, source), "Key": source}
        self.client.copy_object(Bucket=bucket_of(self.load, key), Key=key, CopySource=source)
        return digest

    def _parts(self, key):
        if max(self.load.sizes) < PART_BYTES:
            return self._put(key)
        body = self._body(PART_BYTES + 100_000)
        digest = hashlib.md5(body).hexdigest()
        of = {"Bucket": bucket_of(self.load, key), "Key": key}
        of["UploadId"] = self.client.create_multipart_upload(**of)["UploadId"]
        parts = []
        for number, part in [(1, body[:PART_BYTES]), (2, body[PART_BYTES:])]:
            told = self.client.upload_part(**of, PartNumber=number, Body=part)
            parts.append({"PartNumber": number, "ETag": told["ETag"],
                          "ChecksumCRC32": told["ChecksumCRC32"]})
        self.may[key].add(digest)
        self.client.complete_multipart_upload(**of, MultipartUpload={"Parts": parts})
        return digest

    def _delete(self, key):
        self.may[key].add(NOTHING)
        self.client.delete_object(Bucket=bucket_of(self.load, key), Key=key)
        return NOTHING

    def check(self):
        """What is wrong with its keys, at each server, while no client writes."""
        for key, may in self.may.items():
            for client in self.clients:
                found = read_patiently(client, bucket_of(self.load, key), key)
                may = may | self._still_late(key)
                if found not in may:
                    yield f"{key} is {found}, and may be {sorted(map(str, may))}"
                # What one server has shown the others show, too.
                self.may[key] = may = {found}


def read(client, bucket, key):
    """The digest of an object; nothing of none."""
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchKey":
            return NOTHING
        raise
    assert is_whole(body), f"{key} is no whole body: {len(body)} bytes"
    return hashlib.md5(body).hexdigest()


def read_patiently(client, bucket, key, others=()):
    """The same, while members of a cluster find each other; of the others where one is away."""
    clients = itertools.cycle([client, *others])
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        client = next(clients)
        try:
            return read(client, bucket, key)
        except (botocore.exceptions.BotoCoreError, OSError):
            assert time.monotonic() < end, f"{key} is not read"
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            assert status >= 500 and time.monotonic() < end, error
        time.sleep(0.1)


class Racers:
    """Clients that put one key at once, each if there is none."""

    def __init__(self, load):
        self.load, self.clients, self.rounds = load, load.clients(), 0

    def work(self):
        with concurrent.futures.ThreadPoolExecutor(RACERS) as pool:
            while not self.load.is_ending:
                self.rounds += 1
                told = list(pool.map(self._put, range(RACERS)))
                winners = [body for body, outcome in told if outcome == "ok"]
                if 1 < len(winners):
                    self.load.errors.append(f"{len(winners)} win the race {self.rounds}")
                if winners and not self._has(winners[0]):
                    self.load.errors.append(f"the race {self.rounds} is another one's")
                self.load.count("races won" if winners else "races unknown")

    def _put(self, number):
        body = body_of(f"{self.load.seed}/race/{self.rounds}/{number}", 100)
        client = self.clients[number % len(self.clients)]
        key = f"race/{self.rounds}"
        try:
            client.put_object(Bucket=bucket_of(self.load, key), Key=key, Body=body,
                              IfNoneMatch="*")
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return body, "refused" if status == 412 else "unknown"
        except (botocore.exceptions.BotoCoreError, OSError):
            return body, "unknown"
        return body, "ok"

    def _has(self, body):
        key = f"race/{self.rounds}"
        bucket = bucket_of(self.load, key)
        found = read_patiently(self.clients[0], bucket, key, self.clients[1:])
        return found == hashlib.md5(body).hexdigest()


class Load:
    """Writers, readers and racers at work."""

    def __init__(
        self, urls, seed, writers=3, readers=1, races=False, sizes=SIZES, timeout=TIMEOUT_SECONDS,
        buckets=BUCKETS, comers=0,
    ):
        self.urls, self.seed, self.buckets = urls, seed, buckets
        self.sizes, self.timeout = sizes, timeout
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.errors = []
        self.is_ending = False
        self.writers = [Writer(self, number) for number in range(writers)]
        self.readers = readers
        self.racers = [Racers(self)] if races else []
        self.comers = [Comer(self, number) for number in range(comers)]
        self.threads = []

    def clients(self):
        """One of each server."""
        return [client_of(url, self.timeout) for url in self.urls]

    def note_fault(self, **_):
        """What is done to a cluster excuses nothing here."""

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def create(self):
        """The buckets, as soon as they can be made."""
        end = time.monotonic() + PATIENCE_SECONDS
        left = list(self.buckets)
        while left:
            with contextlib.suppress(botocore.exceptions.BotoCoreError,
                                     botocore.exceptions.ClientError):
                client_of(self.urls[0]).create_bucket(Bucket=left[0])
                del left[0]
                continue
            assert time.monotonic() < end, f"{left[0]} cannot be created"
            time.sleep(0.1)

    def _guarded(self, work):
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self.errors.append(repr(error))
            raise

    def _read(self):
        clients = self.clients()
        chance = random.Random(f"{self.seed}/reader")
        keys = [key for writer in self.writers for key in writer.may]
        while not self.is_ending:
            try:
                key = chance.choice(keys)
                read(chance.choice(clients), bucket_of(self, key), key)
                self.count("read")
            except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError, OSError):
                time.sleep(0.05)

    def __enter__(self):
        self.is_ending = False
        works = [worker.work for worker in [*self.writers, *self.racers, *self.comers]]
        works += [self._read] * self.readers
        self.threads = [
            threading.Thread(target=self._guarded, args=[work], daemon=True) for work in works
        ]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending = True
        for thread in self.threads:
            thread.join()

    def await_acknowledged(self, count, seconds=PATIENCE_SECONDS):
        """Waits until so many writes more were acknowledged."""
        goal = self.counts["ok"] + count
        end = time.monotonic() + seconds
        while self.counts["ok"] < goal:
            if end < time.monotonic() or self.errors:
                return False
            time.sleep(0.02)
        return True

    def check(self):
        """What is wrong now, while no client writes."""
        complaints = list(self.errors)
        for worker in [*self.writers, *self.comers]:
            complaints.extend(worker.check())
        return complaints

    def empty(self):
        """Deletes everything in all buckets, also in those of which nothing is known."""
        client = client_of(self.urls[0])
        for bucket in [found["Name"] for found in client.list_buckets()["Buckets"]]:
            end = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    empty_bucket(client, bucket)
                    break
                except (botocore.exceptions.BotoCoreError, OSError) as error:
                    assert time.monotonic() < end, f"{bucket}: {error}"
                except botocore.exceptions.ClientError as error:
                    if error.response["Error"]["Code"] == "NoSuchBucket":
                        break
                    # Its end may be decided, and its name be about to be free.
                    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                    assert status >= 500 and time.monotonic() < end, f"{bucket}: {error}"
                time.sleep(0.1)


def empty_bucket(client, bucket):
    for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"],
                                      UploadId=upload["UploadId"])
    for found in client.list_objects_v2(Bucket=bucket).get("Contents", []):
        client.delete_object(Bucket=bucket, Key=found["Key"])
