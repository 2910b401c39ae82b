"""What Fader's systems rely on: kept by Fader, and by the servers of others as far as they do."""

import concurrent.futures
import subprocess

import pytest

import clouds
import server as servers
from processes import Processes

QUEUES, DOMAINS, OBJECTS = 18, 19, 15


def run(folder, *words, code=0, **more):
    """Runs the shipped client with the keys of all providers; what it printed."""
    keys = servers.signing("") | {"AZURE_STORAGE_KEY": clouds.ACCOUNT_KEY} | more
    del keys["AWS_ENDPOINT_URL"]
    environment = servers.environment(folder, **keys)
    command = [servers.BINARY, *words]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


def judge(service, url, folder, promises, *excused, **more):
    """Runs a suite; all promises must be kept, but for those that are excused. Its requests, as
    its meter counted them."""
    flags = [flag for promise in excused for flag in ("--excuse", promise)]
    said = run(folder, "measure", "conformance", service, url, *flags, **more)
    assert said.count("kept    ") == promises - len(excused), said
    assert f"{promises} promises, {len(excused)} excused; " in said
    return int(said.split(" excused; ")[1].split(" requests")[0])


def judge_bucket(url, folder, *excused, **more):
    """A bucket's objects, and the queues and domains in it."""
    judge("objects", url, folder, OBJECTS, *excused, **more)
    judge("queues", url, folder, QUEUES, **more)
    judge("domains", url, folder, DOMAINS, **more)
    assert "BROKEN" not in run(folder, "cloud", "check", url, **more)
    # Each suite deleted what it made.
    said = run(folder, "cloud", "list", url, **more)
    assert "fader-" not in said, said


def s3(url):
    return f"s3://{clouds.BUCKET}/a/prefix?endpoint={url}"


def test_fader_keeps_what_is_promised_of_domains(server, tmp_path):
    judge("domains", f"simpledb://?endpoint={server.url}", tmp_path, DOMAINS)
    judge("domains", f"simpledb://own-?endpoint={server.url}", tmp_path, DOMAINS)


def test_fader_keeps_what_is_promised_of_queues(server, tmp_path):
    judge("queues", f"sqs://?endpoint={server.url}", tmp_path, QUEUES)
    judge("queues", f"sqs://own-?endpoint={server.url}", tmp_path, QUEUES)


def test_fader_keeps_what_is_promised_of_buckets(server, bucket, tmp_path):
    """Objects, and the queues and domains that are kept in them."""
    judge_bucket(f"s3://{bucket}/a/prefix?endpoint={server.url}", tmp_path)


def test_three_nodes_keep_what_is_promised_of_queues(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    with Processes(folder) as cluster:
        cluster.await_whole()
        # Each is a front door; two of them hand on what the head decides.
        with concurrent.futures.ThreadPoolExecutor() as beside:
            judged = [
                beside.submit(
                    judge, "queues", f"sqs://{name}-?endpoint={member.url}", tmp_path, QUEUES
                )
                for name, member in cluster.members.items()
            ]
        for one in judged:
            one.result()


def test_elasticmq_keeps_what_is_promised_of_queues(tmp_path):
    with clouds.elasticmq(tmp_path) as url:
        # AWS takes a receipt again whose message is gone; ElasticMQ 1.7.1 refuses it.
        excused = "removing twice is fine"
        judge("queues", f"sqs://own-?endpoint={url}", tmp_path, QUEUES, excused)


def test_moto_keeps_what_is_promised_of_objects(tmp_path):
    with clouds.moto(tmp_path) as url:
        judge("objects", s3(url), tmp_path, OBJECTS)


def refused(url, folder, part, **more):
    """What looks at a cloud fails, and says where and why."""
    for command in ["check", "list", "sweep"]:
        said = run(folder, "cloud", command, url, code=1, **more)
        where = url.split("?")[0]
        assert part in said and where in said and "<" not in said, said


def test_a_bucket_of_s3_is_a_cloud(tmp_path):
    with clouds.gofakes3(tmp_path) as url:
        judge_bucket(s3(url), tmp_path)
        refused(f"s3://nowhere/p?endpoint={url}", tmp_path, "make it first")


def test_a_container_of_azure_is_a_cloud(tmp_path):
    with clouds.azurite(tmp_path) as url:
        where = f"account={clouds.ACCOUNT}&endpoint={url}"
        own = f"az://{clouds.BUCKET}/a/prefix?{where}"
        judge_bucket(own, tmp_path)
        refused(f"az://nowhere/p?{where}", tmp_path, "make it first")
        wrong = "A" * 86 + "=="
        refused(own, tmp_path, "AuthorizationFailure", AZURE_STORAGE_KEY=wrong)
        said = run(tmp_path, "cloud", "list", own, code=1, AZURE_STORAGE_KEY="hunter2?")
        assert "AZURE_STORAGE_KEY" in said and "hunter2" not in said, said


def test_a_folder_is_a_cloud(tmp_path):
    folder = tmp_path / "cloud"
    folder.mkdir()
    judge_bucket(f"file://{folder}", tmp_path)


@pytest.mark.clouds
def test_a_bucket_of_minio_is_a_cloud(tmp_path):
    with clouds.minio(tmp_path) as url:
        judge_bucket(s3(url), tmp_path, **clouds.KEYS)


@pytest.mark.clouds
def test_a_bucket_of_gcs_is_a_cloud(tmp_path):
    # fake-gcs-server 1.56.1 has neither of them in its XML protocol.
    excused = ["an object is copied", "an object is put in parts"]
    with clouds.fake_gcs(tmp_path) as url:
        where = f"gs://{clouds.BUCKET}/a/prefix?unsigned=true&endpoint={url}"
        judge_bucket(where, tmp_path, *excused)


LIES = [
    ({"drops": "if-match"}, "an update of an old version is refused"),
    ({"drops": "if-none-match"}, "an object is created once"),
    ({"keeps": "reads"}, "a read sees an overwriting"),
    ({"keeps": "lists"}, "a list sees an overwriting"),
]


def test_a_proxy_that_breaks_a_promise_is_found_out(tmp_path):
    with clouds.gofakes3(tmp_path) as url:
        for lie, promise in LIES:
            with clouds.liar(url, **lie) as proxy:
                said = run(tmp_path, "cloud", "check", s3(proxy), code=1)
                line = next(line for line in said.splitlines() if promise in line)
                assert "BROKEN" in line, said
                # Queues in there refuse, and say what to do; objects work.
                said = run(tmp_path, "measure", "conformance", "queues", s3(proxy), code=1)
                assert promise in said and "--queues sqs://" in said, said
        with clouds.liar(url) as proxy:
            assert "BROKEN" not in run(tmp_path, "cloud", "check", s3(proxy))


def test_the_meter_counts_what_a_proxy_sees(server, tmp_path):
    """Of each protocol; `cargo xtask clouds` compares 10,000 calls kind by kind."""
    with clouds.gofakes3(tmp_path) as url, clouds.counter(url) as (proxy, counted):
        assert judge("objects", s3(proxy), tmp_path, OBJECTS) == counted()
    with clouds.elasticmq(tmp_path) as url, clouds.counter(url) as (proxy, counted):
        excused = "removing twice is fine"
        asked = judge("queues", f"sqs://own-?endpoint={proxy}", tmp_path, QUEUES, excused)
        assert asked == counted()
    with clouds.counter(server.url) as (proxy, counted):
        asked = judge("domains", f"simpledb://own-?endpoint={proxy}", tmp_path, DOMAINS)
        assert asked == counted()


def test_a_service_that_is_none_is_found_out(tmp_path):
    """Domains are asked of a server that has queues only."""
    with clouds.elasticmq(tmp_path) as url:
        domains = f"simpledb://?endpoint={url}"
        said = run(tmp_path, "measure", "conformance", "domains", domains, code=1)
    assert "broken  domains are created, listed, deleted" in said, said
    assert "not as expected" in said


def test_the_reader_of_verdicts_may_go(tmp_path):
    """As `| head -1` does: the suite ends with its own code, and no complaint about the pipe."""
    script = f"{servers.BINARY} measure conformance queues mem://; echo code $? >&2"
    environment = servers.environment(tmp_path)
    ends = subprocess.run(
        ["sh", "-c", f"({script}) | head -1"], env=environment, capture_output=True, text=True
    )
    assert ends.stdout.count("kept    ") == 1, ends.stdout
    assert ends.stderr == "code 0\n", ends.stderr


def test_wrong_keys_of_services_are_named(server, tmp_path):
    folder = tmp_path / "cloud"
    folder.mkdir()
    for flag, url, code in [
        ("--queues", f"sqs://?endpoint={server.url}", "InvalidSignatureException"),
        ("--domains", f"simpledb://?endpoint={server.url}", "SignatureDoesNotMatch"),
    ]:
        words = ["cloud", "list", f"file://{folder}", flag, url]
        said = run(tmp_path, *words, code=1, AWS_SECRET_ACCESS_KEY="wrong-secret-key")
        assert f"{flag[2:]}: " in said and code in said and "wrong-secret" not in said, said


def test_a_wrong_url_is_explained_without_its_secret(tmp_path):
    for url, part in [
        ("s3://me:hunter2@bucket", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket?secret_key=hunter2", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket?region=eu", "unknown parameter"),
        ("bucket", "s3://BUCKET/PREFIX"),
        (f"file://{tmp_path}/nowhere", "mkdir -p"),
    ]:
        said = run(tmp_path, "cloud", "check", url, code=1)
        assert part in said and "hunter2" not in said, said


def test_a_foreign_object_is_named_and_stays(tmp_path):
    notes = tmp_path / "cloud" / "_fader" / "queues" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    url = f"file://{tmp_path}/cloud"
    for command in ["list", "sweep"]:
        said = run(tmp_path, "cloud", command, url, code=1)
        assert "_fader/queues/notes.txt" in said and "not Fader's" in said, said
    assert notes.read_text() == "mine"


def test_a_cloud_is_listed_and_swept(tmp_path):
    folder = tmp_path / "cloud"
    folder.mkdir()
    said = run(tmp_path, "cloud", "list", f"file://{folder}")
    assert "queue" in said and "domain" in said
    # A look writes nothing.
    assert not list(folder.rglob("*"))
    assert "0 objects would be deleted" in run(
        tmp_path, "cloud", "sweep", f"file://{folder}", "--dry-run"
    )
    assert "aws-2026" in run(tmp_path, "cloud", "prices")
    assert "object-put" in run(tmp_path, "cloud", "prices", "aws-2026")
    assert "neither a file nor one of" in run(tmp_path, "cloud", "prices", "no-book", code=1)
