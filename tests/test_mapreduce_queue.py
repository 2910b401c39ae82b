"""The shuffle `queue`: pairs as messages, in a folder, in Fader's SQS and in ElasticMQ."""

import json
import random
import signal

import pytest

import clouds
from server import ACCESS_KEY, SECRET_KEY, fader
from test_mapreduce import lines, parts, start, write_corpus

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


@pytest.fixture
def mapreduce(tmp_path):
    def run(*arguments, **more):
        return fader("mapreduce", *map(str, arguments), home=tmp_path, **more)

    return run


def counted(out, name):
    return json.loads((out / "_SUCCESS").read_text())["counters"][name]


def test_both_shuffles_give_the_same_parts(mapreduce, tmp_path):
    write_corpus(tmp_path / "in", files=15, words=3_000)
    # Lines that are larger than a message, and do not compress.
    draw = random.Random(3)
    large = [bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz0123456789+/", k=400_000))] * 2
    (tmp_path / "in/large.txt").write_bytes(b"\n".join(large) + b"\n")
    for program, reduces in [("word-count", 3), ("inverted-index", 2), ("sort", 4)]:
        job = ["run", program, "--input", tmp_path / "in", "--reduces", reduces]
        job += ["--split", "64KiB", "--memory", "16MiB"]
        by_object, by_queue = tmp_path / f"{program}-object", tmp_path / f"{program}-queue"
        mapreduce(*job, "--output", by_object)
        mapreduce(*job, "--output", by_queue, "--shuffle", "queue")
        assert parts(by_queue) == parts(by_object), program
        records = counted(by_object, "reduce input records")
        assert counted(by_queue, "reduce input records") == records
        # No queue is left.
        assert "mr-" not in fader("cloud", "list", f"file://{by_queue}", home=tmp_path).stdout


def test_a_job_whose_messages_are_too_many_says_what_to_do(mapreduce, tmp_path):
    said = mapreduce("run", "sort", "--input", "x", "--output", "y", "--shuffle", "q", check=False)
    assert said.returncode == 2 and "expected `object` or `queue`" in said.stderr


def kill_and_finish(mapreduce, tmp_path, services, **more):
    """A job of three workers, two of which are killed in its middle."""
    expected = write_corpus(tmp_path / "in", files=60, words=1_000)
    out = tmp_path / "out"
    job = ["word-count", "--input", tmp_path / "in", "--split", "16KiB", "--reduces", "4"]
    job += ["--shuffle", "queue", "--lease", "1s", "--output", out, *services]
    mapreduce("submit", *job, **more)
    worker = ["worker", out, "--slots", 2, *services]
    workers = [start(tmp_path, *worker, **more) for _ in range(3)]

    def done():
        told = mapreduce("status", out, "--json", *services, **more).stdout
        return sum(phase["done"] for phase in json.loads(told)["phases"])

    for victim, tasks in [(0, 2), (1, 5)]:
        while done() < tasks:
            assert workers[2].poll() is None, workers[2].stderr.read()
        workers[victim].send_signal(signal.SIGKILL)
        workers[victim].communicate()
    workers.append(start(tmp_path, *worker, **more))
    for worker in workers[2:]:
        _, told = worker.communicate(timeout=600)
        assert worker.returncode == 0, told
    assert lines(out) == expected


def test_killed_workers_change_nothing_in_a_folder(mapreduce, tmp_path):
    kill_and_finish(mapreduce, tmp_path, [])


def test_killed_workers_change_nothing_on_fader_itself(mapreduce, server, tmp_path):
    queues, domains = f"sqs://mr-?endpoint={server.url}", f"simpledb://mr-?endpoint={server.url}"
    kill_and_finish(mapreduce, tmp_path, ["--queues", queues, "--domains", domains], **KEYS)


def test_killed_workers_change_nothing_on_elasticmq(mapreduce, tmp_path):
    with clouds.elasticmq(tmp_path) as url:
        kill_and_finish(mapreduce, tmp_path, ["--queues", f"sqs://mr-?endpoint={url}"], **KEYS)
