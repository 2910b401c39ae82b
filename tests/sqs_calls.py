"""Calls to SQS, and what the tests look for in their answers."""

import urllib.error
import urllib.parse
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.exceptions
from botocore.config import Config

from server import ACCESS_KEY, SECRET_KEY


def client_of(server):
    return boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 1}, read_timeout=40, max_pool_connections=32),
    )


def refused(code, status=400):
    """The call is refused with this code, as a botocore of either protocol shows it."""

    class Refused:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            assert kind and issubclass(kind, botocore.exceptions.ClientError), kind
            assert error.response["Error"]["Code"] == code
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == status
            self.message = error.response["Error"]["Message"]
            return True

    return Refused()


def bodies(sqs, queue, **more):
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **more)
    return [message["Body"] for message in received.get("Messages", [])]


def form(server, path="/", **parameters):
    """What a form of the Query protocol is answered: status and text."""
    parameters.setdefault("Version", "2012-11-05")
    request = botocore.awsrequest.AWSRequest(
        method="POST",
        url=server.url + path,
        data=urllib.parse.urlencode(parameters),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    return signed(request)


def signed(request):
    """What a request is answered that is signed here: status and text."""
    keys = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
    botocore.auth.SigV4Auth(keys, "sqs", "us-east-1").add_auth(request)
    prepared = request.prepare()
    body = prepared.body
    body = body if isinstance(body, bytes) else body.encode()
    sent = urllib.request.Request(
        prepared.url, data=body, headers=dict(prepared.headers), method="POST"
    )
    try:
        with urllib.request.urlopen(sent) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
