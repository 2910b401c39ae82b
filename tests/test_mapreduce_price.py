"""What a job on S3 costs: its meter against a proxy that counts what the server is asked."""

import http.client
import http.server
import json
import re
import threading

import pytest

from server import ACCESS_KEY, SECRET_KEY, fader
from test_mapreduce import start

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


class Counting(http.server.ThreadingHTTPServer):
    """Hands requests on to a server, and keeps their methods and paths in order."""

    daemon_threads = True

    def __init__(self, port):
        self.behind = port
        self.seen = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self):
        with self.server.lock:
            self.server.seen.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            behind.putheader(name, value)
        behind.endheaders(body)
        reply = behind.getresponse()
        told = reply.read()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if self.command != "HEAD" and reply.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)
        behind.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward


@pytest.fixture
def proxy(server):
    counting = Counting(server.port)
    yield counting
    counting.shutdown()
    counting.server_close()


def total(said):
    """The requests of all processes of a job, as they say themselves."""
    return sum(int(number) for number in re.findall(r"(\d+) requests of this process", said))


def words_in(s3, bucket):
    """Input in the bucket."""
    for number in range(6):
        text = b"".join(b"word%d a\n" % (word * 7 % 50) for word in range(400))
        s3.put_object(Bucket=bucket, Key=f"in/{number}.txt", Body=text)


def test_the_price_is_that_of_what_the_server_was_asked(proxy, bucket, s3, tmp_path):
    words_in(s3, bucket)
    at = f"s3://{bucket}/%s?endpoint={proxy.url}"
    job = ["word-count", "--input", at % "in/**", "--output", at % "out"]
    job += ["--split", "4KiB", "--reduces", "2", "--slots", "1", "--quiet"]
    said = fader("mapreduce", "run", *job, home=tmp_path, **KEYS).stderr
    seen = list(proxy.seen)
    assert total(said) == len(seen) > 100
    success = json.loads(s3.get_object(Bucket=bucket, Key="out/_SUCCESS")["Body"].read())
    published = [method == "PUT" and path.split("?")[0].endswith("/_SUCCESS")
                 for method, path in seen]
    # All that was asked before it; behind it is only cleaning.
    assert sum(success["requests"].values()) == published.index(True)


def test_requests_of_two_workers_are_those_that_the_server_saw(proxy, bucket, s3, tmp_path):
    words_in(s3, bucket)
    at = f"s3://{bucket}/%s?endpoint={proxy.url}"
    job = ["word-count", "--input", at % "in/**", "--output", at % "out"]
    submitted = fader("mapreduce", "submit", *job, "--split", "2KiB", home=tmp_path, **KEYS)
    submission = len(proxy.seen)
    assert submitted.stdout
    workers = [start(tmp_path, "worker", at % "out", "--quiet", **KEYS) for _ in range(2)]
    said = [worker.communicate(timeout=120)[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert total("".join(said)) == len(proxy.seen) - submission


def test_a_finished_job_costs_nothing(proxy, bucket, s3, tmp_path):
    words_in(s3, bucket)
    out, source = (f"s3://{bucket}/{name}?endpoint={proxy.url}" for name in ("out", "in/**"))
    fader("mapreduce", "run", "word-count", "--input", source, "--output", out, home=tmp_path,
          **KEYS)
    before = len(proxy.seen)
    # No process is left that would ask. Nothing is left to clean, either: a worker that comes too
    # late reads the register and lists, and writes nothing.
    late = fader("mapreduce", "worker", out, home=tmp_path, check=False, **KEYS)
    assert late.returncode == 0, late.stderr
    asked = proxy.seen[before:]
    assert len(asked) <= 20, asked
    assert all(method in ("GET", "HEAD") for method, _ in asked), asked
