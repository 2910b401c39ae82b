"""Buckets that come and go, each with one owner. Its owner knows what must be there as long as each
request was answered. After a request whose outcome is unknown it takes another name, since that
request may take effect later."""

import hashlib
import itertools
import random
import time

import botocore.exceptions

# Objects of one life of a bucket, at most.
OBJECTS = 3
# Lives of one name, at most.
LIVES = 4
# How long the servers of a cluster need to find each other.
PATIENCE_SECONDS = 120


class Unknown(Exception):
    """A request may have taken effect, or may do so later."""


class Comer:
    """Makes a bucket, fills it, empties it, deletes it, and makes it again under its name."""

    def __init__(self, load, number):
        self.load, self.number = load, number
        self.chance = random.Random(f"{load.seed}/comer/{number}")
        self.clients = load.clients()
        self.serial = itertools.count()
        # What must be there, by the bucket's name; nothing where there must be no bucket.
        self.known = {}

    def work(self):
        while not self.load.is_ending:
            name = f"comer-{self.number}-{next(self.serial)}"
            try:
                for _ in range(LIVES):
                    if not self.load.is_ending:
                        self._live(name)
                        self.load.count("bucket came and went")
            except Unknown:
                self.known.pop(name, None)
                self.load.count("bucket unknown")
                time.sleep(0.05)

    def _ask(self, verb, accepted=(), **request):
        """The reply of one server, or the code with which it refuses."""
        client = self.chance.choice(self.clients)
        try:
            return getattr(client, verb)(**request)
        except botocore.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise Unknown from error
            if code not in accepted:
                self.load.errors.append(f"{verb} {request.get('Bucket')}: {error}")
                raise Unknown from error
            return code
        except (botocore.exceptions.BotoCoreError, OSError) as error:
            raise Unknown from error

    def _live(self, name):
        self._ask("create_bucket", Bucket=name)
        bodies = {}
        self.known[name] = bodies
        self._expect(name, self._keys(name))
        for _ in range(self.chance.randint(0, OBJECTS)):
            key = f"k{next(self.serial)}"
            body = key.encode() + self.chance.randbytes(self.chance.choice(self.load.sizes))
            self._ask("put_object", Bucket=name, Key=key, Body=body)
            bodies[key] = hashlib.md5(body).hexdigest()
            found = self._ask("get_object", Bucket=name, Key=key)
            try:
                found = found["Body"].read()
            except (botocore.exceptions.BotoCoreError, OSError) as error:
                raise Unknown from error
            if found != body:
                self.load.errors.append(f"{name}/{key} is not what was put")
        self._expect(name, self._keys(name))
        if bodies:
            told = self._ask("delete_bucket", ["BucketNotEmpty"], Bucket=name)
            if told != "BucketNotEmpty":
                self.load.errors.append(f"{name} is deleted with {list(bodies)}")
        for key in list(bodies):
            self._ask("delete_object", Bucket=name, Key=key)
            del bodies[key]
        self._ask("delete_bucket", Bucket=name)
        self.known[name] = None
        if self._ask("head_bucket", ["404"], Bucket=name) != "404":
            self.load.errors.append(f"{name} is there though it was deleted")

    def _keys(self, name):
        listed = self._ask("list_objects_v2", Bucket=name)
        return [found["Key"] for found in listed.get("Contents", [])]

    def _expect(self, name, keys):
        if keys != sorted(self.known[name]):
            self.load.errors.append(f"{name} has {keys}, and must have {sorted(self.known[name])}")

    def check(self):
        """What is wrong with its buckets, at each server, while no client writes."""
        for name, bodies in self.known.items():
            for client in self.clients:
                found = bucket_patiently(client, name)
                expected = None if bodies is None else sorted(bodies)
                if found != expected:
                    yield f"{name} has {found}, and must have {expected}"


def bucket_patiently(client, name):
    """The keys of a bucket; nothing where there is none. Servers find each other meanwhile."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            listed = client.list_objects_v2(Bucket=name)
            return [found["Key"] for found in listed.get("Contents", [])]
        except (botocore.exceptions.BotoCoreError, OSError):
            assert time.monotonic() < end, f"{name} is not listed"
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchBucket":
                return None
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            assert status >= 500 and time.monotonic() < end, error
        time.sleep(0.1)
