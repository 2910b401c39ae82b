"""What Fader's systems rely on: kept by Fader, and by the servers of others as far as they do."""

import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import boto3
import pytest

import server as servers
from ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 120


def judge(service, url, folder, *excused, bucket=None):
    """Runs the suite with the shipped client; gives what it printed."""
    command = [servers.BINARY, "measure", "conformance", service, "--endpoint", url]
    if bucket is not None:
        command += ["--bucket", bucket]
    for promise in excused:
        command += ["--excuse", promise]
    environment = servers.environment(folder, **servers.signing(url))
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@contextlib.contextmanager
def running(name, command, log_path, port, environment=None):
    """A server that is started and ended; its address, when it listens."""
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_SECONDS_MAX
        while True:
            assert process.poll() is None, log_path.read_text()
            assert time.monotonic() < until, f"{name} does not listen"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def elasticmq(folder):
    """A running ElasticMQ; its address."""
    for program in ("mvn", "java"):
        assert shutil.which(program), f"{program} is missing: install it, as .ci/run does"
    classpath = folder / "classpath.txt"
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={classpath}"]
    build = ["mvn", "--quiet", "--batch-mode", "--no-transfer-progress", *goal]
    subprocess.run(build, cwd=HERE / "elasticmq", check=True, timeout=600)
    port = free_port()
    config = f"-Dconfig.file={HERE / 'elasticmq' / 'application.conf'}"
    command = ["java", config, "-cp", classpath.read_text().strip(), "org.elasticmq.server.Main"]
    environment = servers.environment(folder, PORT=str(port))
    with running("ElasticMQ", command, folder / "elasticmq.log", port, environment) as url:
        yield url


@contextlib.contextmanager
def moto(folder):
    """A running moto_server, asked one thing at a time; its address."""
    port = free_port()
    command = [sys.executable, HERE / "one_at_a_time.py", str(port)]
    with running("moto_server", command, folder / "moto.log", port) as url:
        yield url


@contextlib.contextmanager
def gofakes3(folder):
    """A running gofakes3; its address."""
    assert shutil.which("go"), "go is missing: install it, as .ci/run does"
    program = folder / "gofakes3"
    build = ["go", "build", "-o", program, "."]
    subprocess.run(build, cwd=HERE / "gofakes3", check=True, timeout=600)
    port = free_port()
    command = [program, f"127.0.0.1:{port}"]
    with running("gofakes3", command, folder / "gofakes3.log", port) as url:
        yield url


def test_fader_keeps_what_is_promised_of_domains(server, tmp_path):
    said = judge("simpledb", server.url, tmp_path)
    assert said.count("kept    ") == 19 and "19 promises, 0 excused" in said


def test_elasticmq_keeps_what_is_promised_of_queues(tmp_path):
    with elasticmq(tmp_path) as url:
        # AWS takes a receipt again whose message is gone; ElasticMQ 1.7.1 refuses it.
        said = judge("sqs", url, tmp_path, "removing twice is fine")
        assert said.count("kept    ") == 16 and "17 promises, 1 excused" in said


@pytest.mark.parametrize("service", [moto, gofakes3])
def test_others_keep_what_is_promised_of_objects(service, tmp_path):
    with service(tmp_path) as url:
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
        s3.create_bucket(Bucket="systems")
        said = judge("s3", url, tmp_path, bucket="systems")
        assert said.count("kept    ") == 14 and "14 promises, 0 excused" in said


def test_a_service_that_is_none_is_found_out(server, tmp_path):
    """Queues are asked of a server that has domains only."""
    command = [servers.BINARY, "measure", "conformance", "sqs", "--endpoint", server.url]
    environment = servers.environment(tmp_path, **servers.signing(server.url))
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1
    assert "broken  what is sent is received" in result.stdout
    assert "not as expected" in result.stderr
