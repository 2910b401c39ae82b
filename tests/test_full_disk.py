"""A server whose disk is filled with objects that lie in the index. They are refused, and taken
again when what was deleted has left the disk."""

import concurrent.futures
import itertools
import subprocess
import time

import botocore.exceptions
import pytest

from nemesis.__main__ import is_due, unshare
from s3_calls import client_of
from server import Server

BUCKET = "photos"
BYTES = 16 << 10
DISK_MB, RESERVE_MB = 288, 128
CALLERS = 8
# Objects that are put when those that filled the disk are deleted.
AGAIN = 1000
# A server lets go what was deleted every ten seconds.
PATIENCE_SECONDS = 120


def put(s3, key):
    """Whether the server takes an object: it says so if its disk is full."""
    try:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode().ljust(BYTES, b"."))
    except botocore.exceptions.ClientError as error:
        answer = error.response["ResponseMetadata"]
        assert answer["HTTPStatusCode"] == 503, error.response
        assert answer["HTTPHeaders"]["x-fader-reason"] == "blocks-full", error.response
        return False
    return True


def fill(s3):
    """Puts objects until they are refused; their keys."""
    numbers = itertools.count()

    def caller(_):
        taken = []
        while put(s3, key := f"k{next(numbers)}"):
            taken.append(key)
        return taken

    with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
        return [key for taken in callers.map(caller, range(CALLERS)) for key in taken]


def delete(s3, keys):
    for first in range(0, len(keys), 1000):
        objects = [{"Key": key} for key in keys[first:first + 1000]]
        deleted = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": objects})
        assert "Errors" not in deleted, deleted["Errors"][:3]


def put_patiently(s3, key):
    end = time.monotonic() + PATIENCE_SECONDS
    while not put(s3, key):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def small(tmp_path):
    """A server with a disk of its own, which ends with it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={DISK_MB}m none {disk} && exec \"$@\""
    before = [*unshare("--mount"), "sh", "-c", mount, "sh"]
    tried = subprocess.run([*before, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        assert not is_due(), tried.stderr
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
    flags = ["--block-reserve-mb", str(RESERVE_MB)]
    with Server(tmp_path, *flags, data=disk / "data", before=before) as running:
        yield running


def test_objects_are_taken_again_when_deleted_ones_have_left_the_disk(small):
    s3 = client_of(small.url, retries={"max_attempts": 0})
    s3.create_bucket(Bucket=BUCKET)
    keys = fill(s3)
    assert 2 * AGAIN < len(keys)
    delete(s3, keys)
    # Room comes back part by part.
    for number in range(AGAIN):
        put_patiently(s3, f"again{number}")
