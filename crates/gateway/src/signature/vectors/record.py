"""Writes the *.http files beside it: requests as botocore sends them, signed at a fixed time.

Run with `python3 record.py` where boto3 is installed. Nothing leaves the process: each request is
caught before it is sent. The keys are AWS's examples and open nothing. `v2-sha1-get` and `v4-form`
are not botocore's: it knows neither HmacSHA1 nor X-Amz-* in a form. The first is signed by the few
lines of `sha1` below; the second is botocore's presigned query moved into the body.
"""

import base64
import datetime
import hashlib
import hmac
import pathlib
import time
from urllib.parse import quote, urlencode, urlsplit

import boto3
import botocore.auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.client import Config
from botocore.credentials import Credentials

KEY, SECRET = "AKIDEXAMPLE01234", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime.datetime(2026, 11, 20, 21, 20, 43, tzinfo=datetime.timezone.utc)
HERE = pathlib.Path(__file__).parent


class FrozenTime:
    strftime = staticmethod(time.strftime)
    gmtime = staticmethod(lambda: NOW.timetuple())


botocore.auth.time = FrozenTime
botocore.auth.get_current_datetime = lambda *_, **__: NOW


def write(name, method, url, headers, body):
    split = urlsplit(url)
    target = (split.path or "/") + ("?" + split.query if split.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {split.netloc}"]
    for key, value in headers.items():
        value = value.decode() if isinstance(value, bytes) else value
        if key.lower() in ("content-type", "authorization", "x-amz-date"):
            lines.append(f"{key}: {value}")
    body = body.decode() if isinstance(body, bytes) else body or ""
    (HERE / f"{name}.http").write_text("\n".join(lines) + "\n\n" + body)


def sdb(name, version, call):
    client = boto3.client(
        "sdb",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:4566",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(signature_version=version, retries={"max_attempts": 0}),
    )

    def caught(request, **_):
        write(name, request.method, request.url, request.headers, request.body)
        return AWSResponse(request.url, 500, {}, None)

    client.meta.events.register("before-send", caught)
    try:
        call(client)
    except Exception:
        pass


def put(client):
    client.put_attributes(
        DomainName="cats",
        ItemName="a b+c/d~e*f",
        Attributes=[
            {"Name": "colour é", "Value": "black & white", "Replace": True},
            {"Name": "empty", "Value": ""},
        ],
        Expected={"Name": "age", "Value": "7"},
    )


def presigned(method, expires_s):
    request = AWSRequest(
        method=method,
        url="http://127.0.0.1:4566/",
        params={
            "Action": "Select",
            "Version": "2009-04-15",
            "SelectExpression": "select * from `cats` where `colour é` = 'a+b'",
        },
    )
    signer = botocore.auth.SigV4QueryAuth(Credentials(KEY, SECRET), "sdb", "eu-west-1", expires_s)
    signer.add_auth(request)
    return request


def sha1():
    params = {
        "AWSAccessKeyId": KEY,
        "Action": "ListDomains",
        "MaxNumberOfDomains": "10",
        "SignatureMethod": "HmacSHA1",
        "SignatureVersion": "2",
        "Timestamp": "2026-11-20T13:20:43.123-08:00",
        "Version": "2009-04-15",
    }
    query = "&".join(f"{quote(k, '')}={quote(v, '')}" for k, v in sorted(params.items()))
    text = "GET\nsdb.example.com\n/\n" + query
    mac = hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).digest()
    params["Signature"] = base64.b64encode(mac).decode()
    # The client signs the host without its port, and sends it with one.
    write("v2-sha1-get", "GET", "http://SDB.example.com:8080/?" + urlencode(params), {}, "")


sdb("v2-form", "v2", put)
sdb("v4-header", "v4", put)
request = presigned("GET", 3600)
write("v4-query", "GET", request.url, {}, "")
request = presigned("POST", 900)
form = {"Content-Type": "application/x-www-form-urlencoded"}
write("v4-form", "POST", "http://127.0.0.1:4566/", form, urlsplit(request.url).query)
sha1()
