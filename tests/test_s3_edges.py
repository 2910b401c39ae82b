"""Rules of S3 at the edges of its operations, by boto3 and by plain HTTP."""

import datetime
import json

import pytest

from s3_calls import Refused, fetch, form_data


@pytest.fixture
def public(s3, bucket):
    """A bucket whose object `k` all may read."""
    s3.delete_public_access_block(Bucket=bucket)
    statement = {
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": statement}))
    s3.put_object(Bucket=bucket, Key="k", Body=b"<script>", ContentType="text/plain")
    yield bucket
    s3.delete_bucket_policy(Bucket=bucket)


def test_the_anonymous_replace_no_header_of_a_reply(server, s3, public):
    url = f"{server.url}/{public}/k"
    for method in ["GET", "HEAD"]:
        assert fetch(url, method=method)[0] == 200
        status, _, body = fetch(f"{url}?response-content-type=text/html", method=method)
        assert status == 400
        assert method == "HEAD" or b"<Code>InvalidRequest</Code>" in body
    asked = {"Bucket": public, "Key": "k", "ResponseContentType": "text/html"}
    assert s3.get_object(**asked)["ContentType"] == "text/html"
    assert fetch(s3.generate_presigned_url("get_object", asked))[0] == 200


def test_a_range_of_another_object_is_no_range(s3, bucket):
    """A download that goes on where it was gets the whole object if that was replaced."""
    of = {"Bucket": bucket, "Key": "k"}
    old = s3.put_object(**of, Body=b"0123456789")["ETag"]
    url = s3.generate_presigned_url("get_object", of)
    asked = {"Range": "bytes=8-", "If-Range": old}
    assert fetch(url, headers=asked)[::2] == (206, b"89")
    body = bytes(range(256)) * 100
    s3.put_object(**of, Body=body)
    assert fetch(url, headers=asked)[::2] == (200, body)
    status, headers, _ = fetch(
        s3.generate_presigned_url("head_object", of), method="HEAD", headers=asked
    )
    assert (status, headers["Content-Length"]) == (200, str(len(body)))
    asked["If-Range"] = s3.head_object(**of)["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
    assert fetch(url, headers=asked)[::2] == (206, body[8:])


def completed(s3, bucket, key, **more):
    """Completes an upload of one part."""
    opened = s3.create_multipart_upload(Bucket=bucket, Key=key)
    of = {"Bucket": bucket, "Key": key, "UploadId": opened["UploadId"]}
    sent = s3.upload_part(**of, PartNumber=1, Body=b"123456789")
    part = {"PartNumber": 1, "ETag": sent["ETag"]}
    return s3.complete_multipart_upload(**of, MultipartUpload={"Parts": [part]}, **more)


def test_a_completed_upload_tells_when_a_rule_ends_it(s3, bucket):
    rule = {"ID": "r", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 3}}
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    told = completed(s3, bucket, "k")["Expiration"]
    assert told == s3.head_object(Bucket=bucket, Key="k")["Expiration"]


def test_a_bucket_is_made_with_tags_and_listed_by_its_region(s3):
    tags = [{"Key": "team", "Value": "a"}]
    region = {"LocationConstraint": "eu-west-1", "Tags": tags}
    names = ["of-region-1", "of-region-2"]
    try:
        for name in names:
            s3.create_bucket(Bucket=name, CreateBucketConfiguration=region)
        assert s3.get_bucket_tagging(Bucket=names[0])["TagSet"] == tags
        listed = s3.list_buckets(BucketRegion="eu-west-1")
        assert [it["Name"] for it in listed["Buckets"]] == names
        page = s3.list_buckets(BucketRegion="eu-west-1", MaxBuckets=1)
        assert [it["Name"] for it in page["Buckets"]] == names[:1]
        token = page["ContinuationToken"]
        page = s3.list_buckets(
            BucketRegion="eu-west-1", MaxBuckets=1, ContinuationToken=token
        )
        assert [it["Name"] for it in page["Buckets"]] == names[1:]
        assert "ContinuationToken" not in page
        assert s3.list_buckets(BucketRegion="eu-west-9")["Buckets"] == []
        with Refused("InvalidTag", 400):
            odd = {"Tags": [{"Key": "aws:team", "Value": "a"}]}
            s3.create_bucket(Bucket="of-odd-tags", CreateBucketConfiguration=odd)
        with Refused("404", 404):
            s3.head_bucket(Bucket="of-odd-tags")
    finally:
        for name in names:
            s3.delete_bucket(Bucket=name)


def test_a_policy_can_enforce_conditional_writes(s3, bucket):
    """As AWS's documentation does it: all that makes an object needs the header."""
    statement = {
        "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {
            "Null": {"s3:if-none-match": "true"},
            "Bool": {"s3:ObjectCreationOperation": "true"},
        },
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": statement}))
    with Refused("AccessDenied", 403):
        s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with Refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    with Refused("AccessDenied", 403):
        s3.copy_object(Bucket=bucket, Key="l", CopySource=f"{bucket}/k")
    with Refused("AccessDenied", 403):
        completed(s3, bucket, "m")
    completed(s3, bucket, "m", IfNoneMatch="*")
    form = s3.generate_presigned_post(bucket, "form")
    data, kind = form_data(form["fields"], b"x")
    assert fetch(form["url"], data, "POST", kind)[0] == 403


def test_an_upload_tells_when_a_rule_aborts_it(s3, bucket):
    rule = {
        "ID": "stale ones", "Status": "Enabled", "Filter": {"Prefix": "a/"},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
    }
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    opened = s3.create_multipart_upload(Bucket=bucket, Key="a/1")
    of = {"Bucket": bucket, "Key": "a/1", "UploadId": opened["UploadId"]}
    for told in [opened, s3.list_parts(**of)]:
        left = told["AbortDate"] - datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        assert 2 * day - day / 24 < left <= 3 * day
        assert told["AbortRuleId"] == "stale ones"
    other = s3.create_multipart_upload(Bucket=bucket, Key="b/1")
    assert "AbortDate" not in other


def test_a_refusal_names_what_is_missing(s3, bucket):
    with Refused("NoSuchKey", 404) as refused:
        s3.get_object(Bucket=bucket, Key="a//b")
    assert refused.error["Key"] == "a//b"
    with Refused("NoSuchBucket", 404) as refused:
        s3.list_objects_v2(Bucket="no-such-bucket")
    assert refused.error["BucketName"] == "no-such-bucket"
    with Refused("NoSuchBucket", 404) as refused:
        s3.copy_object(Bucket=bucket, Key="k", CopySource="no-such-source/k")
    assert refused.error["BucketName"] == "no-such-source"
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with Refused("BucketNotEmpty", 409) as refused:
        s3.delete_bucket(Bucket=bucket)
    assert refused.error["BucketName"] == bucket
