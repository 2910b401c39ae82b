"""Access to buckets between accounts, keys and unsigned requests, by boto3 and by plain HTTP."""

import json
import urllib.error
import urllib.request

import boto3
import botocore
import pytest
from botocore.config import Config

import server as servers
from s3_calls import Refused, client_of, fetch, form_data

OTHER = "000000000002"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with servers.Server(tmp_path_factory.mktemp("access")) as one:
        yield one


def key(running, *flags):
    """A new access key: its id and its secret."""
    lines = running._told("keys", "create", *flags).splitlines()
    words = dict(line.rsplit(maxsplit=1) for line in lines)
    return words["access key"], words["secret key"]


def of_key(running, pair, **config):
    return boto3.client(
        "s3",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=pair[0],
        aws_secret_access_key=pair[1],
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config),
    )


@pytest.fixture(scope="module")
def owner(running):
    return client_of(running.url)


@pytest.fixture(scope="module")
def other(running):
    return of_key(running, key(running, "--account", OTHER))


@pytest.fixture
def anonymous(running):
    return of_key(running, (None, None), signature_version=botocore.UNSIGNED)


def made(owner, name, ownership="BucketOwnerEnforced", is_open=True):
    owner.create_bucket(Bucket=name, ObjectOwnership=ownership)
    if is_open:
        owner.delete_public_access_block(Bucket=name)
    owner.put_object(Bucket=name, Key="a", Body=b"of the owner")
    return name


def allow(owner, bucket, principal, *actions, **rest):
    statement = {
        "Effect": "Allow",
        "Principal": principal,
        "Action": list(actions),
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        **rest,
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    owner.put_bucket_policy(Bucket=bucket, Policy=policy)


def test_a_policy_gives_another_account_what_it_names(owner, other):
    bucket = made(owner, "of-policy", is_open=False)
    with Refused("AccessDenied", 403):
        other.get_object(Bucket=bucket, Key="a")
    allow(owner, bucket, {"AWS": f"arn:aws:iam::{OTHER}:root"}, "s3:GetObject", "s3:PutObject")
    assert other.get_object(Bucket=bucket, Key="a")["Body"].read() == b"of the owner"
    other.put_object(Bucket=bucket, Key="big", Body=b"x" * 100_000)
    other.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/big")
    with Refused("AccessDenied", 403):
        other.list_objects_v2(Bucket=bucket)
    with Refused("AccessDenied", 403):
        other.get_object(Bucket=bucket, Key="missing")
    with Refused("AccessDenied", 403):
        other.delete_object(Bucket=bucket, Key="a")
    assert owner.get_object(Bucket=bucket, Key="copy")["ContentLength"] == 100_000


def test_the_anonymous_read_and_write_what_is_public(running, owner, anonymous):
    bucket = made(owner, "of-all", is_open=False)
    with Refused("AccessDenied", 403):
        allow(owner, bucket, "*", "s3:GetObject")
    with Refused("AccessDenied", 403):
        anonymous.get_object(Bucket=bucket, Key="a")
    owner.delete_public_access_block(Bucket=bucket)
    allow(owner, bucket, "*", "s3:GetObject")
    with urllib.request.urlopen(f"{running.url}/{bucket}/a", timeout=60) as reply:
        assert reply.read() == b"of the owner"
    with Refused("InvalidRequest", 400):
        anonymous.get_object(Bucket=bucket, Key="a", ResponseContentType="text/html")
    request = urllib.request.Request(f"{running.url}/{bucket}/b", b"x" * 100_000, method="PUT")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 403
    with Refused("AccessDenied", 403):
        anonymous.create_bucket(Bucket="of-no-account")
    status = owner.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]
    assert status["IsPublic"] is True


def test_acls_count_where_ownership_permits(owner, other, anonymous):
    bucket = made(owner, "of-acls", "ObjectWriter")
    owner.put_bucket_acl(Bucket=bucket, GrantWrite=f"id={OTHER}")
    other.put_object(Bucket=bucket, Key="theirs", Body=b"of the other", ACL="public-read")
    acl = other.get_object_acl(Bucket=bucket, Key="theirs")
    assert acl["Owner"]["ID"] == OTHER
    group = "http://acs.amazonaws.com/groups/global/AllUsers"
    granted = {it["Grantee"].get("ID") or it["Grantee"]["URI"]: it["Permission"]
               for it in acl["Grants"]}
    assert granted == {OTHER: "FULL_CONTROL", group: "READ"}
    assert anonymous.get_object(Bucket=bucket, Key="theirs")["Body"].read() == b"of the other"
    other.put_object_acl(Bucket=bucket, Key="theirs", ACL="private")
    for one in (owner, anonymous):
        with Refused("AccessDenied", 403):
            one.get_object(Bucket=bucket, Key="theirs")
    listed = owner.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"]
    assert [it["Owner"]["ID"] for it in listed] == [owner_of(owner), OTHER]
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    with Refused("InvalidBucketAclWithObjectOwnership", 400):
        owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    owner.put_bucket_acl(Bucket=bucket, ACL="private")
    owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    assert owner.get_object(Bucket=bucket, Key="theirs")["Body"].read() == b"of the other"
    with Refused("AccessControlListNotSupported", 400):
        owner.put_object(Bucket=bucket, Key="b", Body=b"", ACL="public-read")


def owner_of(client):
    return client.list_buckets()["Owner"]["ID"]


def test_a_key_with_granted_rights_has_what_policies_give_it(running, owner):
    bucket = made(owner, "of-key")
    pair = key(running, "--granted-only")
    granted = of_key(running, pair)
    with Refused("AccessDenied", 403):
        granted.list_buckets()
    with Refused("AccessDenied", 403):
        granted.get_object(Bucket=bucket, Key="a")
    arn = f"arn:aws:iam::{owner_of(owner)}:user/{pair[0]}"
    condition = {"StringLike": {"s3:prefix": "logs/*"}}
    allow(owner, bucket, {"AWS": arn}, "s3:ListBucket", Condition=condition)
    granted.list_objects_v2(Bucket=bucket, Prefix="logs/1")
    with Refused("AccessDenied", 403):
        granted.list_objects_v2(Bucket=bucket)
    allow(owner, bucket, {"AWS": arn}, "s3:PutObject")
    upload = granted.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    of = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
    part = granted.upload_part(**of, PartNumber=1, Body=b"one")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    granted.complete_multipart_upload(**of, MultipartUpload=parts)
    assert owner.get_object(Bucket=bucket, Key="parts")["Body"].read() == b"one"


def test_an_expected_owner_is_compared(owner):
    bucket = made(owner, "of-expectation")
    owner.get_object(Bucket=bucket, Key="a", ExpectedBucketOwner=owner_of(owner))
    with Refused("AccessDenied", 403):
        owner.get_object(Bucket=bucket, Key="a", ExpectedBucketOwner=OTHER)
    with Refused("AccessDenied", 403):
        owner.copy_object(
            Bucket=bucket, Key="b", CopySource=f"{bucket}/a", ExpectedSourceBucketOwner=OTHER
        )


def test_a_key_of_another_server_is_taken_over(running, owner, tmp_path):
    bucket = made(owner, "of-import")
    said = servers.fader(
        "keys", "import", "min", "--data", running.data, home=tmp_path, text="12345678\n"
    ).stdout
    assert "12345678" not in said
    taken = of_key(running, ("min", "12345678"))
    assert taken.get_object(Bucket=bucket, Key="a")["Body"].read() == b"of the owner"
    for identity, secret in [("mi", "12345678"), ("mini", "1234567"), ("a/b", "12345678")]:
        refused = servers.fader(
            "keys", "import", identity, "--data", running.data, home=tmp_path,
            text=secret, check=False,
        )
        assert refused.returncode != 0 and secret not in refused.stderr, identity
    again = servers.fader(
        "keys", "import", "min", "--data", running.data, home=tmp_path,
        text="87654321", check=False,
    )
    assert again.returncode != 0


def form_of(signer, bucket, url, headers=(), **fields):
    """What a form that puts `k` is answered, with these fields."""
    conditions = [{name: value} for name, value in fields.items()]
    form = signer.generate_presigned_post(bucket, "k", Fields=fields, Conditions=conditions)
    data, kind = form_data(form["fields"], b"x")
    status, told, _ = fetch(url, data, "POST", {**kind, **dict(headers)})
    return status, told["Location"]


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_policy_sees_the_fields_of_a_form(running, owner, version):
    """A form says with fields what a put says with headers."""
    bucket = made(owner, f"of-forms-{version}", "ObjectWriter")
    signer = client_of(running.url, signature_version=version)
    url = f"{running.url}/{bucket}"

    def deny(**condition):
        allow(owner, bucket, "*", "s3:PutObject", Effect="Deny", Condition=condition)

    deny(StringEquals={"s3:x-amz-acl": "public-read"})
    assert form_of(signer, bucket, url, acl="public-read") == (403, None)
    assert form_of(signer, bucket, url, acl="private") == (204, f"{url}/k")
    deny(StringNotEquals={"s3:x-amz-acl": "private"})
    assert form_of(signer, bucket, url, {"x-amz-acl": "private"}.items()) == (403, None)
    deny(StringEquals={"s3:authType": "POST"})
    assert form_of(signer, bucket, url) == (403, None)
    owner.put_object(Bucket=bucket, Key="k", Body=b"by a header")
    deny(NumericGreaterThanEquals={"s3:signatureAge": "0"})
    assert form_of(signer, bucket, url) == (403, None)
    owner.put_object(Bucket=bucket, Key="k", Body=b"by a header")


def test_a_form_to_a_bucket_in_the_host_is_told_where_its_object_is(running, owner):
    bucket = made(owner, "of-hosts")
    host = f"{bucket}.localhost:{running.port}"
    headers = {"Host": host}.items()
    told = form_of(client_of(running.url), bucket, running.url, headers)
    assert told == (204, f"http://{host}/k")


def test_a_policy_bounds_the_age_of_signatures_in_urls(running, owner):
    bucket = made(owner, "of-age")
    url = client_of(running.url, signature_version="s3v4").generate_presigned_url(
        "get_object", {"Bucket": bucket, "Key": "a"}, ExpiresIn=600
    )

    def deny(age_ms):
        condition = {"NumericGreaterThan": {"s3:signatureAge": str(age_ms)}}
        allow(owner, bucket, "*", "s3:GetObject", Effect="Deny", Condition=condition)

    deny(600_000)
    assert fetch(url)[0] == 200
    deny(-1)
    assert fetch(url)[0] == 403
    assert owner.get_object(Bucket=bucket, Key="a")["Body"].read() == b"of the owner"
