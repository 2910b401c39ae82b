"""Buckets of the mode mixed: eventual puts to a real cluster, and what becomes of them."""

import hashlib
import time

import s3_calls
from s3_calls import Refused
from server import Cluster

BUCKET = "photos"
SECONDS_MAX = 60


def client_of(server, **headers):
    """A client, with these headers on each of its requests."""
    client = s3_calls.client_of(server.url, read_timeout=30)

    def add(request, **_):
        for name, value in headers.items():
            request.headers[name.replace("_", "-")] = value

    client.meta.events.register("before-sign.s3", add)
    return client


def body_of(s3, key):
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def await_body(s3, key, body):
    """Waits until a strong read shows it."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=key).get("Contents", [])
        if listed and body_of(s3, key) == body:
            return
        assert time.monotonic() < end, key
        time.sleep(0.02)


def test_reads_and_puts_of_a_mixed_bucket_are_eventual_where_asked(tmp_path):
    with Cluster(tmp_path) as cluster:
        strong = s3_calls.client_of(cluster.url, read_timeout=30)
        eventual = client_of(cluster, x_fader_consistency="eventual; w=2")
        eventual_read = client_of(cluster, x_fader_consistency="eventual")
        client_of(cluster, x_fader_collection_mode="mixed").create_bucket(Bucket=BUCKET)
        for number in range(20):
            told = eventual.put_object(Bucket=BUCKET, Key=f"k{number}", Body=b"%d" % number)
            assert told["ETag"] and "VersionId" not in told
        for number in range(20):
            await_body(strong, f"k{number}", b"%d" % number)
        end = time.monotonic() + SECONDS_MAX
        while eventual_read.list_objects_v2(Bucket=BUCKET)["KeyCount"] < 20:
            assert time.monotonic() < end
        assert eventual_read.head_object(Bucket=BUCKET, Key="k7")["ContentLength"] == 1
        assert body_of(eventual_read, "k7") == b"7"
        # What is larger has its bytes in blocks.
        for size in (16_385, 100_000, 9_000_000):
            body = bytes([size % 251]) * size
            told = eventual.put_object(Bucket=BUCKET, Key=f"large{size}", Body=body)
            assert told["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
            await_body(strong, f"large{size}", body)
        with Refused("InvalidArgument", 400):
            eventual.put_object(Bucket=BUCKET, Key="k", Body=b"", IfNoneMatch="*")
        with Refused("InvalidArgument", 400):
            eventual.delete_object(Bucket=BUCKET, Key="k1")
        enabled = {"Status": "Enabled"}
        with Refused("InvalidBucketState", 409):
            strong.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
        assert cluster.mode(BUCKET, "strong", "--wait", "--bucket") == f"{BUCKET}: strong\n"
        with Refused("InvalidArgument", 400):
            eventual.put_object(Bucket=BUCKET, Key="k", Body=b"")
        strong.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
        assert cluster.stop() == 0, cluster.log()


def test_a_strong_put_stays_above_eventual_ones(tmp_path):
    with Cluster(tmp_path) as cluster:
        strong = s3_calls.client_of(cluster.url, read_timeout=30)
        eventual = client_of(cluster, x_fader_consistency="eventual; w=1")
        client_of(cluster, x_fader_collection_mode="mixed").create_bucket(Bucket=BUCKET)
        for number in range(50):
            # Every other one is large.
            before = b"before" if number % 2 else b"before" * 10_000
            eventual.put_object(Bucket=BUCKET, Key=f"k{number}", Body=before)
            strong.put_object(Bucket=BUCKET, Key=f"k{number}", Body=b"after")
        # All eventual puts are settled when this one is, which came later.
        eventual.put_object(Bucket=BUCKET, Key="last", Body=b"last")
        await_body(strong, "last", b"last")
        assert cluster.mode(BUCKET, "strong", "--wait", "--bucket") == f"{BUCKET}: strong\n"
        for number in range(50):
            assert body_of(strong, f"k{number}") == b"after", number
        assert cluster.stop() == 0, cluster.log()
