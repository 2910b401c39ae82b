"""Clients of SQS as they are: SDKs, the AWS command line, and Celery. Each SDK's is a program of
`ok NAME` lines."""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse

import pytest

import server as servers
from test_vendor_sdks import build, java_tour, needs, tour

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENTS = pathlib.Path(sys.prefix)
DONE_SECONDS_MAX = 120


def environment(name):
    """The Python of an environment that `cargo xtask` makes beside the tests' own."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists() and "CI" not in os.environ:
        pytest.skip(f"no environment {name}: `cargo xtask ci --only sdk` makes it")
    return python


def test_botocore_in_the_query_protocol(server, tmp_path):
    tour([environment("query"), HERE / "sqs" / "query_tour.py"], server, tmp_path)


def test_the_sdk_for_go_version_2(server, tmp_path):
    needs("go")
    program = tmp_path / "go-sqs"
    build(["go", "build", "-o", program, "."], HERE / "go_sqs")
    tour([program], server, tmp_path)


def test_the_sdk_for_java_version_2(server, tmp_path):
    java_tour("java_sqs", "fader.SqsTour", server, tmp_path)


def test_the_aws_command_line(server, tmp_path):
    def aws(*arguments, check=True):
        result = subprocess.run(
            [pathlib.Path(sys.executable).parent / "aws", "sqs", "--endpoint-url", server.url,
             *arguments],
            env=servers.environment(tmp_path, **servers.signing(server.url)),
            capture_output=True, text=True, timeout=120,
        )
        assert not check or result.returncode == 0, result.stderr
        return json.loads(result.stdout) if result.stdout else result.stderr

    url = aws("create-queue", "--queue-name", "aws-cli", "--attributes", "DelaySeconds=0")
    url = ["--queue-url", url["QueueUrl"]]
    attributes = '{"k": {"DataType": "String", "StringValue": "v"}}'
    sent = aws("send-message", *url, "--message-body", "hello", "--message-attributes", attributes)
    found = aws("receive-message", *url, "--wait-time-seconds", "5",
                "--message-attribute-names", "All")["Messages"]
    assert [(it["Body"], it["MessageId"]) for it in found] == [("hello", sent["MessageId"])]
    assert found[0]["MessageAttributes"] == json.loads(attributes)
    aws("delete-message", *url, "--receipt-handle", found[0]["ReceiptHandle"])
    counts = aws("get-queue-attributes", *url, "--attribute-names", "All")["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "0"
    aws("delete-queue", *url)
    assert "NonExistentQueue" in aws("get-queue-url", "--queue-name", "aws-cli", check=False)


class Application:
    """Celery's application, with workers that may be killed."""

    def __init__(self, server, folder):
        self.python, self.folder = environment("celery"), folder
        self.done = folder / "done"
        self.done.mkdir()
        host = server.url.removeprefix("http://")
        secret = urllib.parse.quote(servers.SECRET_KEY, safe="")
        broker = f"sqs://{servers.ACCESS_KEY}:{secret}@{host}"
        self.environment = servers.environment(
            folder, DONE=str(self.done), BROKER=broker, PYTHONPATH=str(HERE / "sqs"),
            **servers.signing(server.url),
        )
        self.workers = []

    def start(self):
        log = open(self.folder / f"worker-{len(self.workers)}.log", "wb")  # noqa: SIM115
        command = [self.python, "-m", "celery", "-A", "application", "worker", "--pool", "solo",
                   "--without-gossip", "--without-mingle", "--without-heartbeat",
                   "--loglevel", "warning"]
        worker = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        log.close()
        self.workers.append(worker)
        return worker

    def send(self, script):
        """Runs lines of a client of the application."""
        lines = f"from application import *\nfrom celery import chain\n{script}"
        result = subprocess.run([self.python, "-c", lines], env=self.environment, timeout=120,
                                capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    def await_done(self, names):
        end = time.monotonic() + DONE_SECONDS_MAX
        while True:
            missing = {name for name in names if not (self.done / name).exists()}
            if not missing:
                return
            assert time.monotonic() < end, (missing, self.logs())
            time.sleep(0.1)

    def logs(self):
        logs = sorted(self.folder.glob("worker-*.log"))
        return [log.read_text()[-2000:] for log in logs]

    def text(self, name):
        return (self.done / name).read_text().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
            worker.wait()


def test_celery_does_every_task(server, tmp_path):
    """Retries, a countdown, a chain, payloads of 100 KB, late acknowledgement, and a worker that is
    killed while it has a task."""
    with Application(server, tmp_path) as application:
        first = application.start()
        application.send(
            "slow.delay(0)\n"
            "for n in range(10): plain.delay(n, 'x' * 100_000)\n"
            "for n in range(3): flaky.delay(n)\n"
            "plain.apply_async((99,), countdown=1)\n"
            "for n in range(3): chain(add.s(1, n), add.s(10), told.s(n)).delay()\n"
            "slow.delay(1)\n"
        )
        application.await_done({"began-0"})
        first.kill()
        first.wait()
        application.start()
        names = {f"plain-{n}" for n in [*range(10), 99]} | {f"flaky-{n}" for n in range(3)}
        names |= {f"chain-{n}" for n in range(3)} | {"slow-0", "slow-1"}
        application.await_done(names)
        assert application.text("plain-3")[0] == "100000"
        assert application.text("flaky-1")[0] == "2"
        assert [application.text(f"chain-{n}")[0] for n in range(3)] == ["11", "12", "13"]
        # The task of the worker that was killed began again at another one.
        assert len((application.done / "began-0").read_text().splitlines()) == 2
