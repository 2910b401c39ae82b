"""Clients of S3, and what the tests look for in their answers."""

import urllib.error
import urllib.request

import boto3
import botocore.exceptions
from botocore.config import Config

from server import ACCESS_KEY, SECRET_KEY


def client_of(url, verify=None, style="path", **config):
    """A boto3 client that sends each request once, with the defaults of boto3 otherwise."""
    config.setdefault("retries", {"max_attempts": 1})
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        verify=verify,
        config=Config(s3={"addressing_style": style}, max_pool_connections=32, **config),
    )


def fetch(url, data=None, method="GET", headers=None):
    """What a plain HTTP client is answered: status, headers and body."""
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read()


def form_data(fields, file):
    """The body of a form with a file, and the header that goes with it."""
    parts = [
        f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    head = 'Content-Disposition: form-data; name="file"; filename="f.txt"'
    text = "".join(parts) + f"--XX\r\n{head}\r\n\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    return text.encode() + file + b"\r\n--XX--\r\n", kind


class Refused:
    """The call is refused with this code and this status."""

    def __init__(self, code, status):
        self.code, self.status = code, status

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert kind and issubclass(kind, botocore.exceptions.ClientError), (kind, error)
        self.error = error.response["Error"]
        found = (self.error["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"])
        assert found == (self.code, self.status), error.response
        return True


def empty(s3, bucket):
    """Deletes everything in a bucket, and the bucket."""
    for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = page.get("Versions", []) + page.get("DeleteMarkers", [])
        objects = [{"Key": it["Key"], "VersionId": it["VersionId"]} for it in found]
        if objects:
            deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
            assert "Errors" not in deleted, deleted
    s3.delete_bucket(Bucket=bucket)
