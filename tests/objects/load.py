"""Writers and readers of a bucket, through boto3.

Each writer has keys of its own and knows what they may hold: the last body that was acknowledged,
and those whose outcome is unknown since. A body says of itself which it is, so that half of one,
or a mix of two, is seen by each reader."""

import collections
import contextlib
import hashlib
import random
import threading
import time

import boto3
import botocore.exceptions
from botocore.config import Config

import server as servers

BUCKET = "siege"
KEYS = 4
TIMEOUT_SECONDS = 8
PATIENCE_SECONDS = 120
PART_BYTES = 5 << 20
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


def client_of(url):
    settings = Config(
        retries={"max_attempts": 0}, connect_timeout=1, read_timeout=TIMEOUT_SECONDS,
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
        self.clients = [client_of(url) for url in load.urls]
        self.turn = number
        self.serial = 0
        self.may = {f"{number}/{key}": {NOTHING} for key in range(KEYS)}

    @property
    def client(self):
        return self.clients[self.turn % len(self.clients)]

    def work(self):
        while not self.load.is_ending:
            self.serial += 1
            key = self.chance.choice(list(self.may))
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
                time.sleep(0.05)
                continue
            except (botocore.exceptions.BotoCoreError, OSError):
                self.load.count(f"{deed.__name__} unknown")
                self.turn += 1
                time.sleep(0.05)
                continue
            self.may[key] = {becomes}
            self.load.count("ok")

    def _body(self, size):
        return body_of(f"{self.load.seed}/{self.number}/{self.serial}", size)

    def _put(self, key):
        size = self.chance.choice([40, 5_000, 20_000, 300_000, 5_000_000])
        body = self._body(size)
        self.may[key].add(hashlib.md5(body).hexdigest())
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        return hashlib.md5(body).hexdigest()

    def _copy(self, key):
        others = [other for other, may in self.may.items() if other != key and len(may) == 1]
        source = self.chance.choice(others) if others else None
        if source is None or self.may[source] == {NOTHING}:
            return self._put(key)
        [digest] = self.may[source]
        self.may[key].add(digest)
        self.client.copy_object(Bucket=BUCKET, Key=key,
                                CopySource={"Bucket": BUCKET, "Key": source})
        return digest

    def _parts(self, key):
        body = self._body(PART_BYTES + 100_000)
        digest = hashlib.md5(body).hexdigest()
        of = {"Bucket": BUCKET, "Key": key}
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
        self.client.delete_object(Bucket=BUCKET, Key=key)
        return NOTHING

    def check(self):
        """What is wrong with its keys, at each server, while no client writes."""
        for key, may in self.may.items():
            for client in self.clients:
                found = read_patiently(client, key)
                if found not in may:
                    yield f"{key} is {found}, and may be {sorted(map(str, may))}"
                # What one server has shown the others show, too.
                self.may[key] = may = {found}


def read(client, key):
    """The digest of an object; nothing of none."""
    try:
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchKey":
            return NOTHING
        raise
    assert is_whole(body), f"{key} is no whole body: {len(body)} bytes"
    return hashlib.md5(body).hexdigest()


def read_patiently(client, key):
    """The same, while members of a cluster find each other."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return read(client, key)
        except (botocore.exceptions.BotoCoreError, OSError):
            assert time.monotonic() < end, f"{key} is not read"
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            assert status >= 500 and time.monotonic() < end, error
        time.sleep(0.1)


class Load:
    """Writers and readers at work."""

    def __init__(self, urls, seed, writers=3, readers=1):
        self.urls, self.seed = urls, seed
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.errors = []
        self.is_ending = False
        self.writers = [Writer(self, number) for number in range(writers)]
        self.readers = readers
        self.threads = []

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def create(self):
        """The bucket, as soon as it can be made."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(botocore.exceptions.BotoCoreError,
                                     botocore.exceptions.ClientError):
                client_of(self.urls[0]).create_bucket(Bucket=BUCKET)
                return
            assert time.monotonic() < end, "the bucket cannot be created"
            time.sleep(0.1)

    def _guarded(self, work):
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self.errors.append(repr(error))
            raise

    def _read(self):
        clients = [client_of(url) for url in self.urls]
        chance = random.Random(f"{self.seed}/reader")
        keys = [key for writer in self.writers for key in writer.may]
        while not self.is_ending:
            try:
                read(chance.choice(clients), chance.choice(keys))
                self.count("read")
            except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError, OSError):
                time.sleep(0.05)

    def __enter__(self):
        self.is_ending = False
        works = [writer.work for writer in self.writers] + [self._read] * self.readers
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

    def await_acknowledged(self, count):
        """Waits until so many writes more were acknowledged."""
        goal = self.counts["ok"] + count
        end = time.monotonic() + PATIENCE_SECONDS
        while self.counts["ok"] < goal:
            if end < time.monotonic() or self.errors:
                return False
            time.sleep(0.02)
        return True

    def check(self):
        """What is wrong now, while no client writes."""
        complaints = list(self.errors)
        for writer in self.writers:
            complaints.extend(writer.check())
        return complaints

    def empty(self):
        """Deletes everything."""
        client = client_of(self.urls[0])
        for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
            client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"],
                                          UploadId=upload["UploadId"])
        for found in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            client.delete_object(Bucket=BUCKET, Key=found["Key"])
