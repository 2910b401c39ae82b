"""S3 by tools: `fader s3`, awscli, rclone, restic, Arrow, DuckDB, and the SDKs for Java and Go."""

import json
import os
import pathlib
import random
import subprocess
import sys
import urllib.request

import pytest

import server as servers
from test_vendor_sdks import build, java_tour, needs, tour

HERE = pathlib.Path(__file__).resolve().parent
AWS = pathlib.Path(sys.executable).parent / "aws"
MIB = 1 << 20


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


@pytest.fixture
def fader(server, tmp_path):
    def run(*arguments, check=True, text=None):
        return servers.fader(
            "s3", *arguments, home=tmp_path, check=check, text=text, **servers.signing(server.url)
        )

    return run


def tree(folder):
    """The files below a folder, with their bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    for at, (name, size) in enumerate(
        [("a.jpg", 10), ("b/c d.jpg", 0), ("b/é.jpg", 100_000), ("big", 19 * MIB + 5)]
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(noise(size, at))
    return folder


def test_a_tour_with_fader_s3(s3, fader, photos, tmp_path):
    fader("mb", "tour-bucket")
    assert "tour-bucket" in fader("ls").stdout
    said = fader("cp", "-r", photos, "s3://tour-bucket/2026").stdout
    assert "copied 4, 0 were there already" in said
    said = fader("cp", "-r", photos, "s3://tour-bucket/2026").stdout
    assert "copied 0, 4 were there already" in said
    listed = fader("ls", "s3://tour-bucket/2026/", "--json").stdout.splitlines()
    shown = [json.loads(line) for line in listed]
    assert [it.get("prefix") or it["key"] for it in shown] == [
        "2026/b/", "2026/a.jpg", "2026/big"
    ]
    copy = tmp_path / "copy"
    fader("cp", "-r", "s3://tour-bucket/2026", copy)
    assert tree(copy) == tree(photos)
    (copy / "a.jpg").write_bytes(b"changed")
    said = fader("cp", "-r", "s3://tour-bucket/2026", copy).stdout
    assert "copied 1, 3 were there already" in said
    assert tree(copy) == tree(photos)
    fader("cp", "-r", "s3://tour-bucket/2026", "s3://tour-bucket/again")
    printed = fader("cat", "s3://tour-bucket/again/b/c d.jpg").stdout
    assert printed == ""
    url = fader("presign", "s3://tour-bucket/again/b/é.jpg", "--expires", "1h").stdout.strip()
    assert urllib.request.urlopen(url, timeout=60).read() == (photos / "b/é.jpg").read_bytes()
    put = fader("presign", "s3://tour-bucket/new", "--put").stdout.strip()
    request = urllib.request.Request(put, data=b"by url", method="PUT")
    assert urllib.request.urlopen(request, timeout=60).status == 200
    assert fader("cat", "s3://tour-bucket/new").stdout == "by url"
    refused = fader("rb", "tour-bucket", check=False)
    assert "rm -r" in refused.stderr
    fader("rm", "-r", "s3://tour-bucket")
    fader("rb", "tour-bucket")
    assert "tour-bucket" not in fader("ls").stdout


def test_an_interrupted_upload_goes_on_where_it_was(s3, bucket, fader, photos):
    body = (photos / "big").read_bytes()
    upload = s3.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    of = {"Bucket": bucket, "Key": "big", "UploadId": upload}
    kept = s3.upload_part(**of, PartNumber=1, Body=body[: 8 * MIB])
    s3.upload_part(**of, PartNumber=2, Body=b"something else")
    before = next(it for it in s3.list_parts(**of)["Parts"] if it["PartNumber"] == 1)
    fader("cp", photos / "big", f"s3://{bucket}/")
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == body
    assert before["ETag"] == kept["ETag"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_keys_that_leave_the_folder_are_left_out(s3, bucket, fader, tmp_path):
    for key in ["../evil", "a/../../evil", "a//b", "good"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    copy = tmp_path / "deep" / "copy"
    said = fader("cp", "-r", f"s3://{bucket}", copy).stderr
    assert tree(tmp_path / "deep") == {"copy/good": b"x"}
    assert said.count("left out") == 3


def test_links_to_nothing_are_left_out(bucket, fader, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "a").write_bytes(b"x")
    for name, target in [("same", "a"), ("nothing", "nowhere"), ("loop", "..")]:
        (folder / name).symlink_to(target)
    said = fader("cp", "-r", folder, f"s3://{bucket}/links")
    assert "copied 2, " in said.stdout
    assert [name in said.stderr for name in ("nothing", "loop", "same")] == [True, True, False]


def test_a_name_with_a_slash_is_a_folder(s3, bucket, fader, tmp_path):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    fader("cp", f"s3://{bucket}/k", f"{tmp_path}/new/")
    assert tree(tmp_path) == {"new/k": b"x"}


def test_errors_say_what_to_do(fader, bucket, tmp_path):
    said = fader("ls", "s3://no-such-bucket", check=False)
    assert said.returncode != 0 and "fader s3 mb" in said.stderr
    said = fader("cp", tmp_path, "s3://no-such-bucket", check=False)
    assert "-r" in said.stderr
    said = fader("cp", "-r", "nowhere", "s3://b", check=False)
    assert "cannot read nowhere" in said.stderr
    for words in (["cat", f"s3://{bucket}"], ["cp", f"s3://{bucket}/", tmp_path]):
        assert "names no object" in fader(*words, check=False).stderr


def test_the_aws_command_line_syncs(server, bucket, photos, tmp_path):
    def aws(*arguments):
        # It waits for a reply without end: one that it misreads fails the test.
        result = subprocess.run(
            [AWS, "--cli-read-timeout", "0", "s3", *arguments],
            env=servers.environment(tmp_path, **servers.signing(server.url)),
            capture_output=True, text=True, timeout=120,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert aws("sync", photos, f"s3://{bucket}/sync").count("upload:") == 4
    assert aws("sync", photos, f"s3://{bucket}/sync") == ""
    copy = tmp_path / "copy"
    aws("sync", f"s3://{bucket}/sync", copy)
    assert tree(copy) == tree(photos)
    assert "a.jpg" in aws("ls", f"s3://{bucket}/sync/")
    aws("rm", "--recursive", f"s3://{bucket}")
    assert aws("ls", f"s3://{bucket}") == ""


def run(command, server, home, **more):
    """What a program prints that signs for the server, and succeeds."""
    environment = servers.environment(home, **servers.signing(server.url), **more)
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_rclone_syncs_copies_and_checks(server, bucket, photos, tmp_path):
    needs("rclone")
    remote = {
        "RCLONE_CONFIG_F_TYPE": "s3",
        "RCLONE_CONFIG_F_PROVIDER": "Other",
        "RCLONE_CONFIG_F_ENV_AUTH": "true",
        "RCLONE_CONFIG_F_ENDPOINT": server.url,
        "RCLONE_S3_UPLOAD_CUTOFF": "6M",
        "RCLONE_S3_CHUNK_SIZE": "5M",
        "RCLONE_CONFIG": str(tmp_path / "none.conf"),
    }

    def rclone(*arguments):
        return run(["rclone", "-v", *arguments], server, tmp_path, **remote)

    rclone("sync", photos, f"f:{bucket}/sync")
    assert "0 differences found" in rclone("check", photos, f"f:{bucket}/sync")
    (photos / "a.jpg").write_bytes(b"changed")
    (photos / "b" / "c d.jpg").unlink()
    rclone("sync", photos, f"f:{bucket}/sync")
    rclone("copy", f"f:{bucket}/sync", f"f:{bucket}/again")
    rclone("sync", f"f:{bucket}/again", tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(photos)
    rclone("purge", f"f:{bucket}/again")
    assert "again" not in rclone("lsf", f"f:{bucket}")


def test_restic_backs_up_checks_and_restores(server, bucket, photos, tmp_path):
    needs("restic")
    more = {
        "RESTIC_REPOSITORY": f"s3:{server.url}/{bucket}/backup",
        "RESTIC_PASSWORD": "correct horse",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }

    def restic(*arguments):
        return run(["restic", *arguments], server, tmp_path, **more)

    restic("init")
    restic("backup", str(photos))
    (photos / "a.jpg").write_bytes(b"changed")
    restic("backup", str(photos))
    assert "no errors were found" in restic("check", "--read-data")
    restic("restore", "latest", "--target", str(tmp_path / "restored"))
    assert tree(tmp_path / "restored" / photos.relative_to("/")) == tree(photos)
    restic("forget", "--keep-last", "1", "--prune")
    assert "no errors were found" in restic("check")


def test_columns_are_read_by_ranges(server, s3, bucket):
    """Arrow's own client of S3 writes and reads Parquet, and DuckDB reads through it."""
    if "CI" not in os.environ:
        pytest.importorskip("pyarrow")
    import duckdb
    import pyarrow
    from pyarrow import dataset, fs, parquet

    files = fs.S3FileSystem(
        access_key=servers.ACCESS_KEY, secret_key=servers.SECRET_KEY, scheme="http",
        endpoint_override=server.url.removeprefix("http://"), region="us-east-1",
    )
    rows = 400_000
    names = [f"name {at % 1000}" for at in range(rows)]
    noises = random.Random(1).choices(range(1 << 40), k=rows)
    table = pyarrow.table({"id": list(range(rows)), "name": names, "noise": noises})
    parquet.write_table(table, f"{bucket}/t/a.parquet", filesystem=files, row_group_size=50_000)
    size = s3.head_object(Bucket=bucket, Key="t/a.parquet")["ContentLength"]
    assert size > 2 * MIB

    column = parquet.read_table(f"{bucket}/t/a.parquet", columns=["id"], filesystem=files)
    assert column["id"].to_pylist() == list(range(rows))
    whole = parquet.ParquetDataset(f"{bucket}/t", filesystem=files).read()
    assert whole.equals(table)
    database = duckdb.connect()
    database.register("t", dataset.dataset(f"{bucket}/t", filesystem=files))
    found = database.sql("select count(*), max(id) from t where name = 'name 7'").fetchall()
    assert found == [(rows // 1000, rows - 1000 + 7)]


def test_the_sdk_for_go_version_2(server, tmp_path):
    needs("go")
    program = tmp_path / "go-s3"
    build(["go", "build", "-o", program, "."], HERE / "go_s3")
    tour([program], server, tmp_path)


def test_the_sdk_for_java_version_2(server, tmp_path):
    java_tour("java_s3", "fader.S3Tour", server, tmp_path)
