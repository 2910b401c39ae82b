"""`fader db grant`: keys, bucket policies, permissions of queues, and what could not be set."""

import json

import boto3
import pytest

import clouds
import server as servers
from s3_calls import client_of
from server import ACCESS_KEY, SECRET_KEY, fader

OTHER = "000000000002"
OWN = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with servers.Server(tmp_path_factory.mktemp("grant")) as one:
        yield one


@pytest.fixture(scope="module")
def other(running):
    """The environment of another account's key."""
    lines = running._told("keys", "create", "--account", OTHER).splitlines()
    words = dict(line.rsplit(maxsplit=1) for line in lines)
    pair = words["access key"], words["secret key"]
    return dict(zip(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], pair))


def database(running, bucket, home):
    """A database in a bucket of Fader's, as one account or another uses it."""
    client_of(running.url).create_bucket(Bucket=bucket)
    url = f"s3://{bucket}/shop?endpoint={running.url}"

    def run(command, *arguments, who=OWN, check=True):
        return fader("db", command, url, *arguments, home=home, check=check, **who)

    run("create", "books")
    run("put", "books", "k", "v")
    return run


def test_a_policy_lets_another_account_in(running, other, tmp_path):
    db = database(running, "writers", tmp_path)
    kept = {"Sid": "Own", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000003:root"},
            "Action": "s3:GetObject", "Resource": "arn:aws:s3:::writers/public/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [kept]})
    client_of(running.url).put_bucket_policy(Bucket="writers", Policy=policy)
    refused = db("get", "books", "k", who=other, check=False)
    assert refused.returncode != 0 and "AccessDenied" in refused.stderr, refused.stderr

    told = db("grant", "books", "--principal", OTHER, "--access", "read")
    assert 'set: the policy of bucket "writers"' in told.stderr
    assert db("get", "books", "k", who=other).stdout == "v\n"
    refused = db("put", "books", "k", "of other", who=other, check=False)
    assert refused.returncode != 0 and "AccessDenied" in refused.stderr, refused.stderr

    db("grant", "books", "--principal", OTHER)
    db("put", "books", "k", "of other", "--level", "atomic", who=other)
    assert db("get", "books", "k").stdout == "of other\n"
    found = client_of(running.url).get_bucket_policy(Bucket="writers")["Policy"]
    statements = json.loads(found)["Statement"]
    assert kept in statements and len(statements) == 4, found


def test_an_encrypted_collection_needs_key_and_policy(running, other, tmp_path):
    db = database(running, "sealed", tmp_path)
    theirs = {**other, "FADER_DB_IDENTITY": str(tmp_path / "theirs")}
    db("create", "secrets", "--encrypt")
    db("put", "secrets", "k", "xyzzy")
    told = db("grant", "secrets", "--principal", OTHER)
    assert "not set: the key of secrets" in told.stderr
    refused = db("get", "secrets", "k", who=theirs, check=False)
    assert refused.returncode != 0 and "encrypted" in refused.stderr
    identity = fader("db", "identity", home=tmp_path, **theirs).stdout.strip()
    told = db("grant", "secrets", identity, "--principal", OTHER)
    assert "set: the key of secrets" in told.stderr and "not set" not in told.stderr
    assert db("get", "secrets", "k", who=theirs).stdout == "xyzzy\n"


def queue_policies(url):
    """The policies of all queues, by the part of their names behind the database's."""
    sqs = boto3.client("sqs", endpoint_url=url, region_name="us-east-1",
                       aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
    policies = {}
    for queue in sqs.list_queues().get("QueueUrls", []):
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
        policies[queue.rsplit("/", 1)[1]] = found.get("Attributes", {}).get("Policy")
    return policies


def test_queues_of_the_collection_get_a_permission(running, tmp_path):
    client_of(running.url).create_bucket(Bucket="queued")
    url = f"s3://queued/shop?endpoint={running.url}"
    queues = ["--queues", f"sqs://shop-?endpoint={running.url}"]

    def db(command, *arguments, check=True):
        return fader("db", command, url, *arguments, *queues, home=tmp_path, check=check, **OWN)

    db("create", "books", "--pending-queues", "2", "--index", "by")
    db("create", "other")
    user = f"arn:aws:iam::{OTHER}:user/bob"
    for _ in range(2):
        told = db("grant", "books", "--principal", OTHER)
        assert "not set" not in told.stderr, told.stderr
    policies = queue_policies(running.url)
    allowed = {name: policy for name, policy in policies.items() if policy}
    # Two of the collection, two of the index, and that of Atomic transactions.
    assert len(allowed) == 5 and len(policies) == 6, policies
    for name, policy in allowed.items():
        [statement] = json.loads(policy)["Statement"]
        assert OTHER in json.dumps(statement["Principal"]), policy
        assert "SQS:ReceiveMessage" in statement["Action"], policy
    told = db("grant", "books", "--principal", user, check=False)
    assert told.returncode == 1 and "not set: a permission of queues for one user" in told.stderr


def test_what_a_service_does_not_have_is_told(tmp_path):
    url = f"file://{tmp_path}/shop"
    fader("db", "create", url, "books", home=tmp_path)
    told = fader("db", "grant", url, "books", "--principal", OTHER, home=tmp_path, check=False)
    assert told.returncode == 1 and "not set: access to file://" in told.stderr
    told = fader("db", "grant", url, "books", home=tmp_path, check=False)
    assert told.returncode == 2 and "<IDENTITY>" in told.stderr
    told = fader("db", "grant", url, "books", "--principal", "bob", home=tmp_path, check=False)
    assert told.returncode == 2 and "twelve digits" in told.stderr


def test_gofakes3_has_no_policies(tmp_path):
    with clouds.gofakes3(tmp_path) as url:
        at = f"s3://{clouds.BUCKET}/shop?endpoint={url}"
        fader("db", "create", at, "books", home=tmp_path, **OWN)
        told = fader("db", "grant", at, "books", "--principal", OTHER, home=tmp_path, check=False,
                     **OWN)
        assert told.returncode == 1, told.stderr
        assert f'not set: the policy of bucket "{clouds.BUCKET}"' in told.stderr
        # The request changed nothing.
        verified = fader("db", "verify", at, home=tmp_path, **OWN).stdout
        assert verified == "books: 0 records in 1 pages\n"


def test_elasticmq_is_asked_for_each_queue(tmp_path):
    with clouds.elasticmq(tmp_path) as url:
        at = [f"file://{tmp_path}/shop", "books", "--queues", f"sqs://shop-?endpoint={url}"]
        fader("db", "create", *at, home=tmp_path, **OWN)
        told = fader("db", "grant", *at, "--principal", OTHER, home=tmp_path, check=False, **OWN)
        assert told.stderr.count("permission of queue") == 2, told.stderr
        assert told.returncode == 1 and "not set: access to file://" in told.stderr
