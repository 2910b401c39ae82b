"""Objects on clusters: what one member took is read at each, with any member dead meanwhile."""

import contextlib
import hashlib
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import s3_calls
from processes import Processes
from server import Cluster

BUCKET = "photos"
PART_BYTES = 5 << 20
PATIENCE_SECONDS = 120


def body_of(number):
    """A body that no other is like: inline, one block, or several."""
    size = [100, 300_000, 9_000_000][number % 3]
    return hashlib.shake_128(str(number).encode()).digest(size)


def patiently(work):
    """The work, again while members come and go."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except (BotoCoreError, ClientError) as error:
            status = getattr(error, "response", {}).get("ResponseMetadata", {})
            assert status.get("HTTPStatusCode", 503) >= 500, error
            assert time.monotonic() < end, error
            time.sleep(0.1)


def create(s3):
    def work():
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=BUCKET)
    patiently(work)


def put(s3, number, bucket=BUCKET):
    patiently(lambda: s3.put_object(Bucket=bucket, Key=f"k{number}", Body=body_of(number)))


def check(s3, numbers):
    for number in numbers:
        def read(number=number):
            return s3.get_object(Bucket=BUCKET, Key=f"k{number}")["Body"].read()
        assert patiently(read) == body_of(number), number


def upload(s3, key, body):
    """A body in two parts."""
    of = {"Bucket": BUCKET, "Key": key}
    of["UploadId"] = patiently(lambda: s3.create_multipart_upload(**of))["UploadId"]
    parts = []
    for number, part in [(1, body[:PART_BYTES]), (2, body[PART_BYTES:])]:
        def put_part(number=number, part=part):
            return s3.upload_part(**of, PartNumber=number, Body=part)
        told = patiently(put_part)
        parts.append({"PartNumber": number, "ETag": told["ETag"],
                      "ChecksumCRC32": told["ChecksumCRC32"]})
    patiently(lambda: s3.complete_multipart_upload(**of, MultipartUpload={"Parts": parts}))


def is_whole(roles):
    return sorted(roles.values()) == ["head", "serving", "serving"]


@pytest.mark.parametrize("wiring", ["star", "chain"])
def test_objects_outlive_any_member_of_a_cluster_in_one_process(tmp_path, wiring):
    with Cluster(tmp_path, "--wiring", wiring) as cluster:
        s3 = s3_calls.client_of(cluster.url, read_timeout=30)
        create(s3)
        for number in range(3):
            put(s3, number)
        cluster.order("kill", "n1")
        cluster.await_roles(lambda roles: roles["n1"] == "out")
        for number in range(3, 6):
            put(s3, number)
        upload(s3, "k8", body_of(8))
        cluster.order("restart", "n1")
        cluster.await_roles(is_whole)
        # The one that came back has the bytes of what it missed: it alone is left.
        for other in ["n2", "n3"]:
            cluster.order("kill", other)
            cluster.await_roles(lambda roles, other=other: roles[other] == "out")
        check(s3, [*range(6), 8])
        assert cluster.stop() == 0, cluster.log()


@pytest.mark.drawn
@pytest.mark.parametrize("chains", [0, 2])
def test_each_process_has_what_any_took_also_after_kills(tmp_path, chains):
    flags = ["--chains", str(chains)] if chains else []
    with Processes(tmp_path, flags=flags) as cluster:
        clients = {
            name: s3_calls.client_of(member.url, read_timeout=30)
            for name, member in cluster.members.items()
        }
        create(clients["n1"])
        for number, s3 in enumerate(clients.values()):
            put(s3, number)
            upload(s3, f"k{3 * number + 11}", body_of(3 * number + 11))
        there = [0, 1, 2, 11, 14, 17]
        for s3 in clients.values():
            check(s3, there)
            assert patiently(lambda s3=s3: len(s3.list_objects_v2(Bucket=BUCKET)["Contents"])) == 6
        cluster.members["n3"].kill()
        for number in range(3, 6):
            put(clients["n2"], number)
        cluster.members["n3"].__exit__()
        cluster.members["n3"] = cluster.new_member("n3")
        cluster.await_roles(is_whole)
        clients["n3"] = s3_calls.client_of(cluster.members["n3"].url, read_timeout=30)
        put(clients["n3"], 6)
        for other in ["n1", "n2"]:
            cluster.members[other].kill()
            cluster.await_roles(lambda roles, other=other: roles[other] == "out")
        check(clients["n3"], [*there, 3, 4, 5, 6])
        patiently(lambda: clients["n3"].delete_object(Bucket=BUCKET, Key="k1"))
        with s3_calls.Refused("NoSuchKey", 404):
            clients["n3"].get_object(Bucket=BUCKET, Key="k1")


def test_buckets_of_two_chains_outlive_any_process(tmp_path):
    buckets, big = ["first", "second"], body_of(8)
    with Processes(tmp_path, flags=["--chains", "2", "--copies", "2"]) as cluster:
        clients = {
            name: s3_calls.client_of(member.url, read_timeout=30)
            for name, member in cluster.members.items()
        }
        for bucket in buckets:
            patiently(lambda bucket=bucket: clients["n1"].create_bucket(Bucket=bucket))
        there = {}
        for number, s3 in enumerate(clients.values()):
            for bucket in buckets:
                put(s3, number, bucket)
                there[bucket, f"k{number}"] = body_of(number)
        # Each bucket is on a chain of its own, and none on the system chain.
        def held(chain):
            places = [member.data / "chains" / chain / "blocks"
                      for member in cluster.members.values()]
            return sum(place.exists() for place in places)
        assert [held(chain) for chain in "012"] == [0, 2, 2]
        patiently(lambda: clients["n2"].put_object(Bucket="first", Key="big", Body=big))
        for name, s3 in clients.items():
            source = {"Bucket": "first", "Key": "big"}
            patiently(lambda s3=s3, name=name, source=source: s3.copy_object(
                Bucket="second", Key=f"copy-{name}", CopySource=source))
            there["second", f"copy-{name}"] = big
        for away in cluster.names:
            cluster.members[away].kill()
            others = {name: s3 for name, s3 in clients.items() if name != away}
            for name, s3 in others.items():
                for bucket in buckets:
                    key = f"without-{away}-{name}"
                    patiently(lambda s3=s3, bucket=bucket, key=key, away=away: s3.put_object(
                        Bucket=bucket, Key=key, Body=away.encode() * 10_000))
                    there[bucket, key] = away.encode() * 10_000
            cluster.members[away].__exit__()
            cluster.start(away)
            clients[away] = s3_calls.client_of(cluster.members[away].url, read_timeout=30)
            cluster.await_whole()
            cluster.await_chains(lambda places: sorted(places.values()) == ["head", "serving"])
        for s3 in clients.values():
            for (bucket, key), body in there.items():
                def read(s3=s3, bucket=bucket, key=key):
                    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                assert patiently(read) == body, (bucket, key)
        del there["first", "k0"]
        patiently(lambda: clients["n3"].delete_object(Bucket="first", Key="k0"))
        with s3_calls.Refused("BucketNotEmpty", 409):
            clients["n1"].delete_bucket(Bucket="first")
        keys = [{"Key": key} for bucket, key in there if bucket == "first"] + [{"Key": "big"}]
        patiently(lambda: clients["n1"].delete_objects(Bucket="first", Delete={"Objects": keys}))
        clients["n2"].delete_bucket(Bucket="first")
        for s3 in clients.values():
            assert [it["Name"] for it in s3.list_buckets()["Buckets"]] == ["second"]
            with s3_calls.Refused("NoSuchBucket", 404):
                s3.list_objects_v2(Bucket="first")
        patiently(lambda: clients["n3"].create_bucket(Bucket="first"))
        assert "Contents" not in clients["n1"].list_objects_v2(Bucket="first")
