"""Exports of domains to buckets, as boto3 asks for them."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import s3_calls
import server as servers
from processes import Processes
from s3_calls import Refused
from server import ACCESS_KEY, SECRET_KEY

PATIENCE_SECONDS = 120
BUCKET = "archive"
DOMAIN = "orders"


def client_of(url):
    """A boto3 client of simpledbv2 that sends each request once."""
    return boto3.client(
        "simpledbv2",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 1}),
    )


@pytest.fixture(scope="module")
def exports(server):
    return client_of(server.url)


def fill(sdb, domain, items=40, values=150):
    """Puts items of many values; what an export of them has."""
    expected = {}
    for number in range(items):
        name = f"item-{number:03}"
        pairs = {"size": {str(number)}, "text": {f"{at:03}" + "x" * 1000 for at in range(values)}}
        expected[name] = pairs
        attributes = [
            {"Name": key, "Value": value} for key, all in pairs.items() for value in all
        ]
        for at in range(0, len(attributes), 100):
            sdb.put_attributes(
                DomainName=domain, ItemName=name, Attributes=attributes[at : at + 100]
            )
    return expected


def read(s3, bucket, told):
    """The items of an export; every sum and count in its manifests holds."""
    folder = told["exportManifest"].removesuffix("manifest-summary.json")
    assert folder.split("/")[-4:-2] == ["AWSSimpleDB", told["exportArn"].rsplit("/", 1)[1]]

    def body(key):
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    assert body(folder + "_started") == b""
    summary = json.loads(body(told["exportManifest"]))
    assert summary["itemsCount"] == told["itemsCount"]
    assert summary["exportArn"] == told["exportArn"]
    lines = [json.loads(line) for line in body(summary["manifestFilesS3Key"]).splitlines()]
    found, names = {}, []
    for line in lines:
        text = body(line["dataFileS3Key"])
        assert base64.b64encode(hashlib.md5(text).digest()).decode() == line["md5Checksum"]
        items = json.loads(text)
        assert len(items) == line["itemCount"]
        names += [item["itemName"] for item in items]
        for item in items:
            pairs = {it["name"]: set(it["values"]) for it in item["attributes"]}
            found[item["itemName"]] = pairs
    assert names == sorted(set(names)) and len(names) == told["itemsCount"]
    # Nothing else is there: what attempts left that came to nothing is gone.
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=folder)["Contents"]
    assert {it["Key"].removeprefix(folder) for it in listed} == {
        "_started", "manifest-file.json", "manifest-summary.json",
        *(line["dataFileS3Key"].removeprefix(folder) for line in lines),
    }
    return found


def wait(exports, arn):
    """boto3's own waiter, which looks more often."""
    waiter = exports.get_waiter("export_succeeded")
    waiter.wait(exportArn=arn, WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE_SECONDS})
    return exports.get_export(exportArn=arn)


def test_an_export_has_every_item_and_its_manifests_say_so(sdb, s3, exports, domain, bucket):
    expected = fill(sdb, domain, items=5)
    sdb.put_attributes(
        DomainName=domain,
        ItemName="ü\n\x01",
        Attributes=[{"Name": "a\"b", "Value": "é\\"}],
    )
    expected["ü\n\x01"] = {"a\"b": {"é\\"}}
    begun = exports.start_domain_export(
        domainName=domain, s3Bucket=bucket, s3KeyPrefix="back/up", clientToken="once"
    )
    assert begun["clientToken"] == "once"
    assert abs(begun["requestedAt"].timestamp() - time.time()) < 600
    told = wait(exports, begun["exportArn"])
    assert told["exportStatus"] == "SUCCEEDED"
    assert (told["domainName"], told["s3Bucket"]) == (domain, bucket)
    assert (told["s3KeyPrefix"], told["clientToken"]) == ("back/up", "once")
    assert told["exportDataCutoffTime"] == told["requestedAt"] == begun["requestedAt"]
    assert told["exportManifest"].startswith("back/up/AWSSimpleDB/")
    assert read(s3, bucket, told) == expected
    # The same request again is the same export.
    again = exports.start_domain_export(
        domainName=domain, s3Bucket=bucket, s3KeyPrefix="back/up", clientToken="once"
    )
    assert again["exportArn"] == begun["exportArn"]
    with Refused("ConflictException", 400):
        exports.start_domain_export(domainName=domain, s3Bucket=bucket, clientToken="once")


def test_an_empty_domain_has_an_export_without_items(s3, exports, domain, bucket):
    arn = exports.start_domain_export(domainName=domain, s3Bucket=bucket)["exportArn"]
    told = wait(exports, arn)
    assert told["itemsCount"] == 0
    assert read(s3, bucket, told) == {}


def test_exports_are_listed_in_pages_and_limited_by_the_day(exports, domain, bucket):
    arns = [
        exports.start_domain_export(domainName=domain, s3Bucket=bucket)["exportArn"]
        for _ in range(5)
    ]
    with Refused("NumberExportsLimitExceeded", 409):
        exports.start_domain_export(domainName=domain, s3Bucket=bucket)
    pages = list(
        exports.get_paginator("list_exports").paginate(
            domainName=domain, PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(page["exportSummaries"]) for page in pages] == [2, 2, 1]
    listed = [it for page in pages for it in page["exportSummaries"]]
    assert [it["exportArn"] for it in listed] == arns
    assert {it["domainName"] for it in listed} == {domain}
    for arn in arns:
        wait(exports, arn)


def test_each_mistake_has_its_error(sdb, exports, domain, bucket):
    start = exports.start_domain_export
    with Refused("NoSuchDomainException", 400):
        start(domainName="no-such-domain", s3Bucket=bucket)
    with Refused("InvalidParameterValueException", 400):
        start(domainName=domain, s3Bucket=bucket, s3SseAlgorithm="AES256")
    with Refused("InvalidParameterCombinationException", 400):
        start(domainName=domain, s3Bucket=bucket, s3SseKmsKeyId="key")
    with Refused("NoSuchExportException", 400):
        arn = f"arn:aws:sdb:us-east-1:123456789012:domain/{domain}/export/{'0' * 32}"
        exports.get_export(exportArn=arn)
    with Refused("InvalidNextTokenException", 400):
        exports.list_exports(nextToken="strange")
    with Refused("NoSuchDomainException", 400):
        exports.list_exports(domainName="no-such-domain")
    stranger = boto3.client(
        "simpledbv2",
        endpoint_url=exports.meta.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key="another",
    )
    with Refused("InvalidSignatureException", 403):
        stranger.list_exports()


def test_an_export_fails_where_its_bucket_cannot_be_written(exports, domain, bucket):
    def failed(**more):
        arn = exports.start_domain_export(domainName=domain, **more)["exportArn"]
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            told = exports.get_export(exportArn=arn)
            if told["exportStatus"] not in ("PENDING", "IN_PROGRESS"):
                assert told["exportStatus"] == "FAILED", told
                return told["failureCode"]
            assert time.monotonic() < end, told
            time.sleep(0.05)

    assert failed(s3Bucket="no-such-bucket-here") == "S3NoSuchBucket"
    assert failed(s3Bucket=bucket, s3BucketOwner="999999999999") == "S3AccessDenied"


def twins(sdb, number):
    """Puts one number into the first and the last item, in one write."""
    attributes = [{"Name": "n", "Value": str(number), "Replace": True}]
    items = [{"Name": name, "Attributes": attributes} for name in ["a-first", "z-last"]]
    sdb.batch_put_attributes(DomainName=DOMAIN, Items=items)


def patiently(work):
    """The work, again while the server is away."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except (BotoCoreError, ClientError) as error:
            status = getattr(error, "response", {}).get("ResponseMetadata", {})
            assert status.get("HTTPStatusCode", 503) >= 500, error
            assert time.monotonic() < end, error
            time.sleep(0.1)


def begin(url):
    """A domain whose first and last items agree, a bucket, and what the others are."""
    sdb, s3 = servers.client(url), s3_calls.client_of(url)
    patiently(lambda: sdb.create_domain(DomainName=DOMAIN))
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        patiently(lambda: s3.create_bucket(Bucket=BUCKET))
    expected = fill(sdb, DOMAIN)
    twins(sdb, 0)
    return expected


def start_and_await_its_begin(url):
    """The ARN of an export that has put its first object."""
    s3 = s3_calls.client_of(url)
    arn = client_of(url).start_domain_export(domainName=DOMAIN, s3Bucket=BUCKET)["exportArn"]
    prefix = f"AWSSimpleDB/{arn.rsplit('/', 1)[1]}/"
    end = time.monotonic() + PATIENCE_SECONDS
    while not s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("KeyCount"):
        assert time.monotonic() < end
    return arn


def check(s3, told, expected, written):
    """All items of one moment: the twins agree, and are not older than the export."""
    found = read(s3, BUCKET, told)
    first, last = found.pop("a-first")["n"], found.pop("z-last")["n"]
    assert first == last and len(first) == 1
    assert written <= int(*first)
    assert found == expected


def test_an_export_survives_kills_and_is_of_one_moment(tmp_path):
    """It shows DX-2."""
    with servers.Server(tmp_path) as running:
        expected = begin(running.url)
        arn = start_and_await_its_begin(running.url)
        running.kill()
    with servers.Server(tmp_path) as running:
        exports, s3 = client_of(running.url), s3_calls.client_of(running.url)
        sdb = running.client()
        # Writers go on while it is carried out.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(wait, exports, arn)
            number = 0
            while not waiting.done():
                number += 1
                twins(sdb, number)
            check(s3, waiting.result(), expected, 0)
        again = exports.start_domain_export(domainName=DOMAIN, s3Bucket=BUCKET)
        told = wait(exports, again["exportArn"])
        check(s3, told, expected, number)
        sdb.delete_domain(DomainName=DOMAIN)
        assert running.stop() == 0, running.log()


@pytest.mark.drawn
@pytest.mark.parametrize("chains", [0, 2])
def test_another_process_goes_on_with_an_export(tmp_path, chains):
    flags = ["--chains", str(chains)] if chains else []
    with Processes(tmp_path, flags=flags) as cluster:
        urls = {name: member.url for name, member in cluster.members.items()}
        expected = patiently(lambda: begin(urls["n1"]))
        arn = patiently(lambda: start_and_await_its_begin(urls["n1"]))
        cluster.members["n1"].kill()
        exports, s3 = client_of(urls["n2"]), s3_calls.client_of(urls["n2"])
        told = patiently(lambda: wait(exports, arn))
        patiently(lambda: check(s3, told, expected, 0))
