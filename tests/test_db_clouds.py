"""`fader db` on stores and queues behind Toxiproxy.

Connections are slow, cut and reset, and clients are killed. All that was acknowledged is there, and
the tree is whole.

CI has gofakes3 and Fader's own S3 and SQS; `cargo xtask clouds` has the others, and more rounds."""

import random
import subprocess
import time

import pytest

import clouds
import server as servers
from s3_calls import client_of
from server import ACCESS_KEY, BINARY, SECRET_KEY, fader

LEVELS = ["basic", "monotonic", "atomic"]
OF_FADER = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
# Kind and attributes: of requests (upstream) or of answers (downstream). A byte limit cuts within a
# request or its answer, so an outcome is unknown; a timeout swallows all and then cuts.
FAULTS = [
    ("latency", {"latency": 100, "jitter": 90}),
    ("bandwidth", {"rate": 20}),
    ("slicer", {"average_size": 60, "size_variation": 40, "delay": 500}),
    ("slow_close", {"delay": 300}),
    ("limit_data", {"bytes": 900}),
    ("limit_data", {"bytes": 3_000}),
    ("reset_peer", {"timeout": 60}),
    ("timeout", {"timeout": 400}),
]
CLIENTS = 4


class Database:
    """A database whose clients are processes."""

    def __init__(self, url, more, folder, keys):
        self.url, self.more, self.folder, self.keys = url, more, folder, keys
        self.acknowledged, self.tried = set(), set()
        self.run("create", "books")

    def run(self, command, *words):
        return fader("db", command, self.url, *words, *self.more, home=self.folder, **self.keys)

    def start(self, level):
        key = f"{len(self.tried):05}"
        self.tried.add(key)
        command = [BINARY, "db", "put", self.url, "books", key, key, "--level", level, *self.more]
        environment = servers.environment(self.folder, **self.keys)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        return key, process

    def kept(self):
        self.run("checkpoint")
        return {line.split("\t")[0] for line in self.run("scan", "books").stdout.splitlines()}


def fault(chance, number):
    """A fault of a part of the connections."""
    kind, attributes = chance.choice(FAULTS)
    return {"name": f"fault-{number}", "type": kind, "attributes": attributes,
            "stream": chance.choice(["upstream", "downstream"]),
            "toxicity": chance.choice([0.3, 0.7])}


def attack(proxies, database, seed, rounds):
    chance = random.Random(seed)
    print("seed", seed)
    for _ in range(rounds):
        proxies.behave(fault(chance, 1), fault(chance, 2))
        started = [database.start(chance.choice(LEVELS)) for _ in range(CLIENTS)]
        time.sleep(chance.random())
        chance.choice(started)[1].kill()
        proxies.behave()
        for key, process in started:
            if process.wait(120) == 0:
                database.acknowledged.add(key)
        assert "books: " in database.run("verify").stdout
    # A client that was killed hides what it had taken from a queue until its time is over.
    until = time.monotonic() + 240
    while not database.acknowledged <= (keys := database.kept()) and time.monotonic() < until:
        time.sleep(1)
    assert database.acknowledged <= keys <= database.tried
    assert len(database.acknowledged) >= rounds
    assert "books: " in database.run("verify").stdout


@pytest.fixture
def proxies(tmp_path):
    with clouds.toxiproxy(tmp_path) as running:
        yield running


def at(proxies, url):
    """The place of a database in the tests' bucket, behind a proxy."""
    return f"s3://{clouds.BUCKET}/shop?endpoint={proxies.before(url)}"


def queues(proxies, url):
    return ["--queues", f"sqs://shop-?endpoint={proxies.before(url)}"]


def test_a_bucket_of_gofakes3_keeps_what_was_acknowledged(proxies, tmp_path):
    with clouds.gofakes3(tmp_path) as url:
        database = Database(at(proxies, url), [], tmp_path, clouds.KEYS)
        attack(proxies, database, 34, rounds=10)


@pytest.mark.drawn
@pytest.mark.parametrize("has_service", [False, True], ids=["bucket", "sqs"])
def test_buckets_and_queues_of_fader_keep_what_was_acknowledged(proxies, tmp_path, has_service):
    with servers.Server(tmp_path) as running:
        client_of(running.url).create_bucket(Bucket=clouds.BUCKET)
        more = queues(proxies, running.url) if has_service else []
        database = Database(at(proxies, running.url), more, tmp_path, OF_FADER)
        attack(proxies, database, 35 + has_service, rounds=10)


@pytest.mark.clouds
def test_a_bucket_of_minio_with_elasticmq_keeps_what_was_acknowledged(proxies, tmp_path):
    with clouds.minio(tmp_path) as store, clouds.elasticmq(tmp_path) as service:
        more = queues(proxies, service)
        database = Database(at(proxies, store), more, tmp_path, clouds.KEYS)
        attack(proxies, database, 37, rounds=20)


@pytest.mark.clouds
def test_a_bucket_of_minio_keeps_what_was_acknowledged(proxies, tmp_path):
    with clouds.minio(tmp_path) as url:
        database = Database(at(proxies, url), [], tmp_path, clouds.KEYS)
        attack(proxies, database, 38, rounds=20)


@pytest.mark.clouds
def test_a_container_of_azure_keeps_what_was_acknowledged(proxies, tmp_path):
    with clouds.azurite(tmp_path) as url:
        place = f"az://{clouds.BUCKET}/shop?account={clouds.ACCOUNT}&endpoint="
        keys = {"AZURE_STORAGE_KEY": clouds.ACCOUNT_KEY}
        database = Database(place + proxies.before(url), [], tmp_path, keys)
        attack(proxies, database, 39, rounds=20)
