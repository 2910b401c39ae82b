"""S3 as boto3 asks it, with its own defaults."""

import base64
import concurrent.futures
import datetime
import hashlib
import http.client
import io
import random
import socket
import urllib.parse
import zlib

import pytest

import server as servers
from s3_calls import Refused, client_of, fetch, form_data
from test_attacks import self_signed

MIB = 1 << 20


def noise(size, seed=1):
    """Bytes that no others are like."""
    return random.Random(seed).randbytes(size)


def body_of(found):
    return found["Body"].read()


@pytest.mark.parametrize("size", [0, 1, 16 << 10, (16 << 10) + 1, 5 * MIB + 7, 9 * MIB])
def test_an_object_comes_back_as_it_was_put(s3, bucket, size):
    body = noise(size)
    put = s3.put_object(Bucket=bucket, Key="a/ü +&%.bin", Body=body, Metadata={"who": "me"})
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    assert put["ChecksumCRC32"] == base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    found = s3.get_object(Bucket=bucket, Key="a/ü +&%.bin")
    assert body_of(found) == body
    assert found["Metadata"] == {"who": "me"}
    assert found["ContentType"] == "binary/octet-stream"
    assert found["ChecksumCRC32"] == put["ChecksumCRC32"]
    head = s3.head_object(Bucket=bucket, Key="a/ü +&%.bin")
    assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])


def test_buckets_are_made_listed_and_removed(s3):
    s3.create_bucket(Bucket="one.bucket")
    s3.create_bucket(Bucket="one.bucket")
    try:
        names = [it["Name"] for it in s3.list_buckets()["Buckets"]]
        assert "one.bucket" in names
        assert s3.head_bucket(Bucket="one.bucket")["BucketRegion"] == "us-east-1"
        assert s3.get_bucket_location(Bucket="one.bucket")["LocationConstraint"] is None
        s3.put_object(Bucket="one.bucket", Key="k", Body=b"")
        with Refused("BucketNotEmpty", 409):
            s3.delete_bucket(Bucket="one.bucket")
        s3.delete_object(Bucket="one.bucket", Key="k")
    finally:
        s3.delete_bucket(Bucket="one.bucket")
    with Refused("404", 404):
        s3.head_bucket(Bucket="one.bucket")
    with Refused("NoSuchBucket", 404) as refused:
        s3.list_objects_v2(Bucket="one.bucket")
    assert refused.error["Message"] == "The specified bucket does not exist"
    for name in ["healthz", "Abc", "a", "xn--a"]:
        with Refused("InvalidBucketName", 400):
            url = f"{s3.meta.endpoint_url}/{name}"
            signed = client_of(s3.meta.endpoint_url)
            signed.meta.events.unregister("before-parameter-build.s3", _validate())
            signed._make_api_call("CreateBucket", {"Bucket": name}) if url else None


def _validate():
    from botocore.handlers import validate_bucket_name

    return validate_bucket_name


def test_a_bucket_stands_in_the_host(server, s3, bucket):
    port = server.port
    styled = client_of(f"http://localhost:{port}", style="virtual")
    hosts = []
    styled.meta.events.register(
        "before-send.s3", lambda request, **_: hosts.append(urllib.parse.urlparse(request.url))
    )
    connection = http.client.HTTPConnection("127.0.0.1", port)
    url = styled.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "x/y"})
    parsed = urllib.parse.urlparse(url)
    assert parsed.netloc == f"{bucket}.localhost:{port}"
    connection.request("PUT", f"{parsed.path}?{parsed.query}", b"hi", {"Host": parsed.netloc})
    assert connection.getresponse().status == 200
    assert body_of(s3.get_object(Bucket=bucket, Key="x/y")) == b"hi"


def test_a_key_of_a_bucket_in_the_host_is_no_page_of_the_server(server, s3, bucket):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    signer = client_of(f"http://localhost:{server.port}", style="virtual")
    for key in ("healthz", "metrics"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"mine")
        url = signer.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key})
        parsed = urllib.parse.urlparse(url)
        connection.request("GET", f"{parsed.path}?{parsed.query}", headers={"Host": parsed.netloc})
        assert connection.getresponse().read() == b"mine"
    assert fetch(f"{server.url}/healthz")[2] == b'{"status":"ok"}'


def test_domains_are_a_setting(tmp_path, monkeypatch):
    found = socket.getaddrinfo

    def here(host, *rest, **named):
        return found("127.0.0.1" if str(host).endswith(".example") else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    with servers.Server(tmp_path, "--s3-domain", "s3.example, files.example") as running:
        for domain in ["s3.example", "files.example"]:
            one = client_of(f"http://{domain}:{running.port}", style="virtual")
            name = domain.replace(".", "-")
            one.create_bucket(Bucket=name)
            one.put_object(Bucket=name, Key="a/b c", Body=b"in the host")
            assert body_of(one.get_object(Bucket=name, Key="a/b c")) == b"in the host"
            listed = one.list_objects_v2(Bucket=name)["Contents"]
            assert [it["Key"] for it in listed] == ["a/b c"]
        # A host below no domain names no bucket: the path does.
        other = client_of(f"http://other.example:{running.port}")
        assert body_of(other.get_object(Bucket=name, Key="a/b c")) == b"in the host"

def test_ranges_and_what_is_beyond(s3, bucket):
    body = noise(4 * MIB + 100_000)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    size = len(body)
    for text, start, end in [
        ("bytes=0-0", 0, 1),
        ("bytes=100-", 100, size),
        ("bytes=-5", size - 5, size),
        (f"bytes={4 * MIB - 3}-{4 * MIB + 2}", 4 * MIB - 3, 4 * MIB + 3),
        ("bytes=1-99999999", 1, size),
    ]:
        found = s3.get_object(Bucket=bucket, Key="k", Range=text)
        assert found["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert found["ContentRange"] == f"bytes {start}-{end - 1}/{size}"
        assert body_of(found) == body[start:end]
    with Refused("InvalidRange", 416) as refused:
        s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={size}-")
    assert refused.error["ActualObjectSize"] == str(size)
    whole = s3.get_object(Bucket=bucket, Key="k", Range="bytes=3-1")
    assert whole["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert body_of(whole) == body
    with Refused("416", 416):
        s3.head_object(Bucket=bucket, Key="k", Range=f"bytes={size}-")


def test_conditions_of_reads_and_writes(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    with Refused("PreconditionFailed", 412) as refused:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert refused.error["Condition"] == "If-None-Match"
    with Refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch='"other"')
    with Refused("NoSuchKey", 404):
        s3.put_object(Bucket=bucket, Key="none", Body=b"2", IfMatch=etag)
    s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=etag)
    assert body_of(s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag)) == b"2"
    with Refused("PreconditionFailed", 412):
        s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    with Refused("304", 304):
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    with Refused("304", 304):
        s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=later)
    with Refused("PreconditionFailed", 412):
        s3.delete_object(Bucket=bucket, Key="k", IfMatch='"other"')
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)


def test_of_racing_writers_one_wins(server, s3, bucket):
    clients = [client_of(server.url) for _ in range(8)]

    def race(at, one):
        try:
            one.put_object(Bucket=bucket, Key=f"race-{at}", Body=str(id(one)), IfNoneMatch="*")
            return id(one)
        except one.exceptions.ClientError as refused:
            assert refused.response["Error"]["Code"] == "PreconditionFailed", refused.response
            return None

    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        for at in range(25):
            winners = [it for it in pool.map(lambda one: race(at, one), clients) if it]
            assert len(winners) == 1
            found = body_of(s3.get_object(Bucket=bucket, Key=f"race-{at}"))
            assert found == str(winners[0]).encode()


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums_are_verified_and_returned(s3, bucket, algorithm):
    pytest.importorskip("awscrt") if algorithm in ("CRC32C", "CRC64NVME") else None
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"hello", ChecksumAlgorithm=algorithm)
    found = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert found[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]
    assert found["ChecksumType"] == "FULL_OBJECT"
    wrong = base64.b64encode(bytes(len(base64.b64decode(put[f"Checksum{algorithm}"])))).decode()
    with Refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"bad", **{f"Checksum{algorithm}": wrong})
    assert body_of(s3.get_object(Bucket=bucket, Key="k")) == b"hello"


def test_digests_lengths_and_signatures_are_judged(server, s3, bucket):
    with Refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")
    with Refused("InvalidDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5="abc")
    other = client_of(server.url)
    other._request_signer._credentials.secret_key = "another"
    with Refused("SignatureDoesNotMatch", 403):
        other.put_object(Bucket=bucket, Key="k", Body=b"x")
    other._request_signer._credentials.access_key = "NOSUCHKEY00000000000"
    with Refused("InvalidAccessKeyId", 403):
        other.list_buckets()
    assert fetch(f"{server.url}/{bucket}/k")[0] == 403
    with Refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="k")


def test_a_body_that_is_refused_by_its_head_is_not_asked_for(server, bucket):
    """A client that expects 100 Continue hears the refusal, and sends nothing.
    It shows OBJREQ-1 and SBODY-1."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("PUT", f"/{bucket}/k")
    connection.putheader("Content-Length", str(100 * MIB))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    reply = connection.getresponse()
    assert (reply.status, b"AccessDenied" in reply.read()) == (403, True)


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_presigned_urls(server, bucket, version):
    """It shows SIGN-4."""
    one = client_of(server.url, signature_version=version)
    sign = one.generate_presigned_url
    put = sign("put_object", {"Bucket": bucket, "Key": "a b", "ContentType": "text/plain"})
    plain = {"Content-Type": "text/plain"}
    assert fetch(put, b"hello", "PUT", plain)[0] == 200
    override = {"Bucket": bucket, "Key": "a b", "ResponseContentType": "text/html"}
    status, headers, body = fetch(sign("get_object", override))
    assert (status, headers["Content-Type"], body) == (200, "text/html", b"hello")
    changed = put.replace("a%20b", "c")
    status, _, body = fetch(changed, b"x", "PUT", plain)
    assert (status, b"SignatureDoesNotMatch" in body) == (403, True)
    status, _, body = fetch(f"{sign('get_object', override)}&versionId=null")
    assert status == 403
    over = sign("get_object", override, ExpiresIn=-10) if version == "s3" else None
    if over:
        status, _, body = fetch(over)
        assert (status, b"Request has expired" in body) == (403, True)


def test_a_presigned_url_carries_headers(server, s3, bucket):
    """SDKs put headers of AWS's own into the URL: with version 2 boto3 does, with version 4 those
    for other languages do. It shows SPRESIGN-1."""
    of = {"Bucket": bucket, "Key": "k"}
    two = client_of(server.url, signature_version="s3")
    url = two.generate_presigned_url("put_object", {**of, "Metadata": {"a": "b c"}})
    assert "x-amz-meta-a=b%20c" in url
    assert fetch(url, b"two", "PUT", {"Content-Type": ""})[0] == 200
    assert s3.head_object(**of)["Metadata"] == {"a": "b c"}
    changed = url.replace("b%20c", "other")
    assert fetch(changed, b"x", "PUT", {"Content-Type": ""})[0] == 403
    more = f"{url}&x-amz-meta-more=1"
    assert fetch(more, b"x", "PUT", {"Content-Type": ""})[0] == 403

    def four(query):
        signer = client_of(server.url, signature_version="s3v4")
        signer.meta.events.register(
            "before-sign.s3", lambda request, **_: request.params.update(query)
        )
        return signer.generate_presigned_url("put_object", of)

    url = four({"x-amz-meta-c": "d", "X-Amz-Tagging": "e=f", "x-amz-checksum-crc32": "AAAAAA=="})
    assert fetch(url, b"four", "PUT")[0] == 200
    assert s3.head_object(**of)["Metadata"] == {"c": "d"}
    assert s3.get_object_tagging(**of)["TagSet"] == [{"Key": "e", "Value": "f"}]
    status, _, body = fetch(url, b"x", "PUT", {"x-amz-meta-c": "other"})
    assert (status, b"not signed" in body) == (403, True)
    status, _, body = fetch(four({"x-amz-server-side-encryption": "AES256"}), b"x", "PUT")
    assert (status, b"NotImplemented" in body) == (501, True)
    assert body_of(s3.get_object(**of)) == b"four"


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_forms_of_browsers(server, s3, bucket, version):
    one = client_of(server.url, signature_version=version)

    def send(key, file, conditions, fields=None, **more):
        form = one.generate_presigned_post(
            bucket, key, Fields=fields, Conditions=conditions, ExpiresIn=600
        )
        data, kind = form_data({**form["fields"], **more}, file)
        return fetch(form["url"], data, "POST", kind)

    large = noise(3 * MIB)
    status, headers, _ = send("u/${filename}", large, [["starts-with", "$key", "u/"]])
    assert (status, headers["ETag"]) == (204, f'"{hashlib.md5(large).hexdigest()}"')
    assert body_of(s3.get_object(Bucket=bucket, Key="u/f.txt")) == large
    fields = {"success_action_status": "201"}
    status, _, body = send("k", b"hi", [fields], fields)
    assert (status, b"<Key>k</Key>" in body) == (201, True)
    sized = [["content-length-range", 2, 4]]
    assert send("k", b"hello", sized)[0] == 400
    assert b"EntityTooSmall" in send("k", b"h", sized)[2]
    status, _, body = send("k", b"hey", sized, **{"x-amz-meta-a": "1"})
    assert (status, b"Extra input fields" in body) == (403, True)
    assert body_of(s3.get_object(Bucket=bucket, Key="k")) == b"hi"
    assert send("k", b"hi", [])[1]["Location"] == f"{server.url}/{bucket}/k"


def test_multipart_uploads(s3, bucket):
    parts = [noise(5 * MIB, 1), noise(6 * MIB + 1, 2), noise(100, 3)]
    upload = s3.create_multipart_upload(
        Bucket=bucket, Key="m", ChecksumAlgorithm="CRC32", Metadata={"a": "b"}
    )
    of = {"Bucket": bucket, "Key": "m", "UploadId": upload["UploadId"]}
    sent = [
        s3.upload_part(**of, PartNumber=n, Body=part, ChecksumAlgorithm="CRC32")
        for n, part in enumerate(parts, 1)
    ]
    listed = s3.list_parts(**of)
    assert [it["Size"] for it in listed["Parts"]] == [len(part) for part in parts]
    assert listed["ChecksumAlgorithm"] == "CRC32"
    done = [
        {"PartNumber": n, "ETag": it["ETag"], "ChecksumCRC32": it["ChecksumCRC32"]}
        for n, it in enumerate(sent, 1)
    ]
    with Refused("InvalidPartOrder", 400):
        s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done[::-1]})
    with Refused("EntityTooSmall", 400):
        few = [{**done[2], "PartNumber": 3}]
        s3.upload_part(**of, PartNumber=4, Body=b"x", ChecksumAlgorithm="CRC32")
        four = next(it for it in s3.list_parts(**of)["Parts"] if it["PartNumber"] == 4)
        last = {k: four[k] for k in ("PartNumber", "ETag", "ChecksumCRC32")}
        s3.complete_multipart_upload(**of, MultipartUpload={"Parts": few + [last]})
    put = s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
    sums = b"".join(hashlib.md5(part).digest() for part in parts)
    assert put["ETag"] == f'"{hashlib.md5(sums).hexdigest()}-3"'
    crcs = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    composite = base64.b64encode(zlib.crc32(crcs).to_bytes(4, "big")).decode()
    assert put["ChecksumCRC32"] == f"{composite}-3"
    again = s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
    assert again["ETag"] == put["ETag"]
    whole = b"".join(parts)
    found = s3.get_object(Bucket=bucket, Key="m")
    assert (body_of(found), found["Metadata"]) == (whole, {"a": "b"})
    second = s3.get_object(Bucket=bucket, Key="m", PartNumber=2)
    assert (body_of(second), second["PartsCount"]) == (parts[1], 3)
    over = f"bytes={5 * MIB - 2}-{5 * MIB + 2}"
    assert body_of(s3.get_object(Bucket=bucket, Key="m", Range=over)) == whole[5 * MIB - 2 :][:5]
    with Refused("InvalidPartNumber", 416):
        s3.get_object(Bucket=bucket, Key="m", PartNumber=9)
    attributes = s3.get_object_attributes(
        Bucket=bucket, Key="m", ObjectAttributes=["ETag", "Checksum", "ObjectParts", "ObjectSize"]
    )
    assert attributes["ObjectParts"]["TotalPartsCount"] == 3
    assert attributes["ObjectSize"] == len(whole)
    assert attributes["Checksum"]["ChecksumType"] == "COMPOSITE"


def test_a_whole_checksum_of_parts(s3, bucket):
    of = {"Bucket": bucket, "Key": "m"}
    upload = s3.create_multipart_upload(
        **of, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT"
    )
    of["UploadId"] = upload["UploadId"]
    parts = [noise(5 * MIB, 4), noise(77, 5)]
    done = []
    for number, part in enumerate(parts, 1):
        etag = s3.upload_part(**of, PartNumber=number, Body=part)["ETag"]
        done.append({"PartNumber": number, "ETag": etag})
    crc = base64.b64encode(zlib.crc32(b"".join(parts)).to_bytes(4, "big")).decode()
    with Refused("BadDigest", 400):
        s3.complete_multipart_upload(
            **of, MultipartUpload={"Parts": done}, ChecksumCRC32="AAAAAA==",
            ChecksumType="FULL_OBJECT",
        )
    put = s3.complete_multipart_upload(
        **of, MultipartUpload={"Parts": done}, ChecksumCRC32=crc, ChecksumType="FULL_OBJECT"
    )
    assert (put["ChecksumCRC32"], put["ChecksumType"]) == (crc, "FULL_OBJECT")


def test_no_checksum_that_a_completion_tells_of_is_passed_over(s3, bucket):
    part = noise(1000, 9)
    crc = base64.b64encode(zlib.crc32(part).to_bytes(4, "big")).decode()
    wrong = {"ChecksumCRC32": "AAAAAA=="}

    def begin(**kind):
        of = {"Bucket": bucket, "Key": "m"}
        of["UploadId"] = s3.create_multipart_upload(**of, **kind)["UploadId"]
        etag = s3.upload_part(**of, PartNumber=1, Body=part, ChecksumAlgorithm="CRC32")["ETag"]
        return of, {"PartNumber": 1, "ETag": etag}

    def complete(of, listed, **told):
        return s3.complete_multipart_upload(**of, MultipartUpload={"Parts": [listed]}, **told)

    of, listed = begin()
    for told, code in [
        (wrong, "BadDigest"),
        ({"ChecksumCRC64NVME": "AAAAAAAAAAA="}, "InvalidRequest"),
        ({"ChecksumSHA256": f"{'A' * 43}="}, "InvalidRequest"),
        ({"ChecksumMD5": f"{'A' * 22}=="}, "InvalidRequest"),
        ({"ChecksumType": "COMPOSITE"}, "InvalidRequest"),
    ]:
        with Refused(code, 400):
            complete(of, listed, **told)
    with Refused("InvalidPart", 400):
        complete(of, {**listed, **wrong})
    assert complete(of, {**listed, "ChecksumCRC32": crc}, ChecksumCRC32=crc)["ChecksumCRC32"] == crc

    of, listed = begin(ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    for told in ({"ChecksumCRC32C": "AAAAAA=="}, {"ChecksumType": "COMPOSITE"}):
        with Refused("InvalidRequest", 400):
            complete(of, listed, **told)
    assert complete(of, listed)["ChecksumCRC32"] == crc


def test_managed_transfers_and_aborted_uploads(s3, bucket):
    body = noise(20 * MIB, 6)
    s3.upload_fileobj(io.BytesIO(body), bucket, "big")
    got = io.BytesIO()
    s3.download_fileobj(bucket, "big", got)
    assert got.getvalue() == body
    upload = s3.create_multipart_upload(Bucket=bucket, Key="x")["UploadId"]
    of = {"Bucket": bucket, "Key": "x", "UploadId": upload}
    s3.upload_part(**of, PartNumber=1, Body=b"1")
    assert [it["Key"] for it in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["x"]
    s3.abort_multipart_upload(**of)
    with Refused("NoSuchUpload", 404):
        s3.upload_part(**of, PartNumber=1, Body=b"1")
    with Refused("NoSuchUpload", 404):
        s3.list_parts(**of)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_copies(s3, bucket):
    body = noise(6 * MIB, 7)
    tags = "a=1&b=2"
    s3.put_object(Bucket=bucket, Key="a b", Body=body, Metadata={"x": "1"}, Tagging=tags)
    source = {"Bucket": bucket, "Key": "a b"}
    copy = s3.copy_object(Bucket=bucket, Key="c", CopySource=source)["CopyObjectResult"]
    assert copy["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    found = s3.get_object(Bucket=bucket, Key="c")
    assert (body_of(found), found["Metadata"], found["TagCount"]) == (body, {"x": "1"}, 2)
    s3.copy_object(
        Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "c"},
        MetadataDirective="REPLACE", Metadata={"y": "2"}, ContentType="text/x",
    )
    head = s3.head_object(Bucket=bucket, Key="c")
    assert (head["Metadata"], head["ContentType"]) == ({"y": "2"}, "text/x")
    with Refused("InvalidRequest", 400):
        s3.copy_object(Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "c"})
    with Refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="d", CopySource=source, CopySourceIfMatch='"no"')
    with Refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="c", CopySource=source, IfNoneMatch="*")
    with Refused("NoSuchKey", 404):
        s3.copy_object(Bucket=bucket, Key="d", CopySource={"Bucket": bucket, "Key": "none"})
    upload = s3.create_multipart_upload(Bucket=bucket, Key="p")["UploadId"]
    of = {"Bucket": bucket, "Key": "p", "UploadId": upload}
    part = s3.upload_part_copy(
        **of, PartNumber=1, CopySource=source, CopySourceRange=f"bytes=5-{5 * MIB + 4}"
    )["CopyPartResult"]
    with Refused("InvalidArgument", 400):
        s3.upload_part_copy(
            **of, PartNumber=2, CopySource=source, CopySourceRange="bytes=0-99999999"
        )
    s3.complete_multipart_upload(
        **of, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    )
    assert body_of(s3.get_object(Bucket=bucket, Key="p")) == body[5 : 5 * MIB + 5]


def test_lists_in_pages_with_prefixes_and_odd_keys(s3, bucket):
    keys = sorted(["a/1", "a/2", "a/b/3", "c", "d e+f%", "é/x", "z&<>\"'", "tab\there"])
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    ordered = sorted(keys, key=str.encode)
    for verb in ["list_objects", "list_objects_v2"]:
        pages = s3.get_paginator(verb).paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
        assert [it["Key"] for page in pages for it in page.get("Contents", [])] == ordered
    found = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [it["Prefix"] for it in found["CommonPrefixes"]] == ["a/", "é/"]
    assert [it["Key"] for it in found["Contents"]] == [k for k in ordered if "/" not in k]
    found = s3.list_objects_v2(Bucket=bucket, Prefix="a/", Delimiter="/")
    assert [it["Key"] for it in found["Contents"]] == ["a/1", "a/2"]
    assert (found["CommonPrefixes"], found["KeyCount"]) == ([{"Prefix": "a/b/"}], 3)
    found = s3.list_objects_v2(Bucket=bucket, StartAfter="c", FetchOwner=True)
    assert [it["Key"] for it in found["Contents"]] == [k for k in ordered if k > "c"]
    assert found["Contents"][0]["Owner"]["ID"]
    found = s3.list_objects(Bucket=bucket, Delimiter="/", MaxKeys=1)
    assert (found["NextMarker"], found["IsTruncated"]) == ("a/", True)
    with Refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=bucket, ContinuationToken="***")
    with Refused("InvalidArgument", 400):
        s3.list_objects(Bucket=bucket, MaxKeys=-1)
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"] == 0


def test_versions(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    one = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    two = s3.put_object(Bucket=bucket, Key="k", Body=b"2")["VersionId"]
    assert body_of(s3.get_object(Bucket=bucket, Key="k", VersionId=one)) == b"1"
    assert body_of(s3.get_object(Bucket=bucket, Key="k", VersionId="null")) == b"0"
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"] is True
    with Refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="k")
    with Refused("MethodNotAllowed", 405):
        s3.get_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    listed = s3.list_object_versions(Bucket=bucket)
    assert [it["VersionId"] for it in listed["Versions"]] == [two, one, "null"]
    assert listed["DeleteMarkers"][0]["IsLatest"] is True
    s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert body_of(s3.get_object(Bucket=bucket, Key="k")) == b"2"
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 1}
    )
    assert [it["VersionId"] for page in pages for it in page["Versions"]] == [two, one, "null"]
    with Refused("NoSuchVersion", 404):
        s3.get_object(Bucket=bucket, Key="k", VersionId="0" * 32)


def test_several_objects_are_deleted_at_once(s3, bucket):
    for at in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{at}", Body=b"")
    asked = [{"Key": f"k{at}"} for at in range(4)] + [{"Key": "none"}]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": asked})
    assert sorted(it["Key"] for it in deleted["Deleted"]) == ["k0", "k1", "k2", "k3", "none"]
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k4"}], "Quiet": True})
    assert "Deleted" not in quiet
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    with Refused("MalformedXML", 400):
        many = [{"Key": f"x{at}"} for at in range(1001)]
        s3.delete_objects(Bucket=bucket, Delete={"Objects": many})


def test_tags(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Tagging="a=1")
    tags = [{"Key": "a", "Value": "2"}, {"Key": "b", "Value": "&"}]
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"][0]["Value"] == "1"
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == tags
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    with Refused("InvalidTag", 400):
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [tags[0], tags[0]]})
    with Refused("NoSuchTagSet", 404):
        s3.get_bucket_tagging(Bucket=bucket)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    s3.delete_bucket_tagging(Bucket=bucket)


def test_settings_of_buckets(s3, bucket):
    rule = {
        "ID": "old", "Status": "Enabled", "Filter": {"Prefix": "log/"}, "Expiration": {"Days": 3}
    }
    with Refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == [rule]
    with Refused("NotImplemented", 501):
        moves = {**rule, "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}
        s3.put_bucket_lifecycle_configuration(
            Bucket=bucket, LifecycleConfiguration={"Rules": [moves]}
        )
    ownership = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]
    assert ownership == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert all(block.values())
    with Refused("NoSuchBucketPolicy", 404):
        s3.get_bucket_policy(Bucket=bucket)
    with Refused("MalformedPolicy", 400):
        s3.put_bucket_policy(Bucket=bucket, Policy="{}")
    acl = s3.get_bucket_acl(Bucket=bucket)
    assert [it["Permission"] for it in acl["Grants"]] == ["FULL_CONTROL"]
    with Refused("AccessControlListNotSupported", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"", ACL="public-read")


def test_left_out_features_answer_as_a_bucket_without_them(s3, bucket):
    for verb, code in [
        ("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError"),
        ("get_bucket_website", "NoSuchWebsiteConfiguration"),
        ("get_bucket_replication", "ReplicationConfigurationNotFoundError"),
        ("get_object_lock_configuration", "ObjectLockConfigurationNotFoundError"),
    ]:
        with Refused(code, 404):
            getattr(s3, verb)(Bucket=bucket)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    with Refused("NotImplemented", 501):
        s3.put_bucket_request_payment(
            Bucket=bucket, RequestPaymentConfiguration={"Payer": "Requester"}
        )
    with Refused("NotImplemented", 501):
        s3.put_object(Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="AES256")


def test_pages_of_other_origins(s3, bucket):
    rule = {
        "AllowedOrigins": ["https://*.example.com"], "AllowedMethods": ["GET", "PUT"],
        "AllowedHeaders": ["*"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60,
    }
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    _, headers, _ = fetch(url, headers={"Origin": "https://a.example.com"})
    assert headers["Access-Control-Allow-Origin"] == "https://a.example.com"
    _, headers, _ = fetch(url, headers={"Origin": "https://other.com"})
    assert headers["Access-Control-Allow-Origin"] is None
    asked = {"Origin": "https://a.example.com", "Access-Control-Request-Method": "PUT"}
    status, headers, _ = fetch(url.split("?")[0], method="OPTIONS", headers=asked)
    assert (status, headers["Access-Control-Allow-Methods"]) == (200, "GET, PUT")
    asked["Access-Control-Request-Method"] = "DELETE"
    assert fetch(url.split("?")[0], method="OPTIONS", headers=asked)[0] == 403


def test_bad_bodies_leave_the_old_value(server, s3, bucket):
    """It shows OBJREQ-2."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    url = client_of(server.url, signature_version="s3v4").generate_presigned_url(
        "put_object", {"Bucket": bucket, "Key": "k"}
    )
    parsed = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("PUT", f"{parsed.path}?{parsed.query}")
    connection.putheader("Content-Length", str(MIB))
    connection.endheaders()
    connection.send(noise(MIB // 2))
    connection.sock.shutdown(1)
    reply = connection.getresponse()
    assert (reply.status, b"IncompleteBody" in reply.read()) == (400, True)
    status, _, body = fetch(url, b"x", "PUT", {"Content-Length": "1", "x-amz-acl": "private"})
    assert (status, b"not signed" in body) == (403, True)
    assert body_of(s3.get_object(Bucket=bucket, Key="k")) == b"old"


def test_objects_survive_a_kill(tmp_path):
    with servers.Server(tmp_path) as first:
        one = client_of(first.url)
        one.create_bucket(Bucket="kept")
        kept = {}
        for at in range(30):
            size = [10, 20 << 10, 5 * MIB][at % 3]
            kept[f"k{at}"] = noise(size, at)
            one.put_object(Bucket="kept", Key=f"k{at}", Body=kept[f"k{at}"])
        first.kill()
    with servers.Server(tmp_path) as again:
        one = client_of(again.url)
        for key, body in kept.items():
            assert body_of(one.get_object(Bucket="kept", Key=key)) == body
        assert again.stop() == 0, again.log()


def test_over_https_with_trailers(tmp_path):
    certificate, key = self_signed(tmp_path)
    flags = ["--tls-certificate", certificate, "--tls-key", key]
    with servers.Server(tmp_path, *flags) as running:
        one = client_of(running.url.replace("127.0.0.1", "localhost"), verify=str(certificate))
        framing = []
        one.meta.events.register(
            "before-send.s3.PutObject",
            lambda request, **_: framing.append(request.headers.get("x-amz-content-sha256")),
        )
        one.create_bucket(Bucket="tls")
        body = noise(5 * MIB + 3)
        one.put_object(Bucket="tls", Key="k", Body=io.BytesIO(body))
        assert framing == [b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
        assert body_of(one.get_object(Bucket="tls", Key="k")) == body
        upload = one.create_multipart_upload(Bucket="tls", Key="parts")["UploadId"]
        of = {"Bucket": "tls", "Key": "parts", "UploadId": upload}
        part = {"PartNumber": 1, "ETag": one.upload_part(**of, PartNumber=1, Body=b"x")["ETag"]}
        whole = one.complete_multipart_upload(**of, MultipartUpload={"Parts": [part]})
        assert whole["Location"] == f"https://localhost:{running.port}/tls/parts"


def test_an_object_tells_when_a_rule_ends_it(s3, bucket):
    rule = {"ID": "old ones", "Status": "Enabled", "Filter": {"Prefix": "logs/"}}
    rule["Expiration"] = {"Days": 3}
    s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    told = [s3.put_object(Bucket=bucket, Key="logs/1", Body=b"x")["Expiration"]]
    of = {"Bucket": bucket, "Key": "logs/1"}
    told += [s3.get_object(**of)["Expiration"], s3.head_object(**of)["Expiration"]]
    assert len(set(told)) == 1
    date, name = told[0].split('", ')
    assert name == 'rule-id="old%20ones"'
    date = date.removeprefix('expiry-date="')
    ends = datetime.datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")
    left = ends - datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    assert datetime.timedelta(days=2, hours=23) < left <= datetime.timedelta(days=4)
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="photos/1", Body=b"x")
