"""Failures of commands: message, code, and what to do, as docs/reference/errors.md lists them."""

import contextlib
import http.client
import http.server
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse

import pytest
import server as servers
from botocore.exceptions import ClientError
from processes import Processes, ZooKeeper, at_any, await_success
from s3_calls import client_of
from sdb_calls import get, put
from server import Server

ROOT = pathlib.Path(__file__).parent.parent

BLOCK = re.compile(r"\Aerror: (.+?)\n  code: ([a-z-]+)\n  do: ([^\n]+)\n\Z", re.DOTALL)


@pytest.fixture(scope="module")
def page():
    """The cells of each code, as the binary has them."""
    page = servers.fader("reference", "errors", home=".").stdout
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row for row in cells if len(row) == 6}


@pytest.fixture(scope="module")
def rows(page):
    """Exit code and action of each code."""
    return {code: (int(row[3]), row[5]) for code, row in page.items()}


def answered(page, call):
    """The code and the message of a refusal by a service; its status is that of the page."""
    with pytest.raises(ClientError) as raised:
        call()
    response = raised.value.response
    told = response["ResponseMetadata"]
    code = told["HTTPHeaders"]["x-fader-reason"]
    assert str(told["HTTPStatusCode"]) == page[code][2], response
    return code, response["Error"]["Message"]


def failure(rows, home, *words, **more):
    """The code and the message of a command that fails."""
    done = servers.fader(*words, home=home, check=False, **more)
    told = BLOCK.match(done.stderr)
    assert told, done.stderr
    message, code, action = told.groups()
    assert (done.returncode, action) == rows[code], done.stderr
    return code, message


def test_a_server_that_cannot_start_says_why(rows, tmp_path):
    data = tmp_path / "data"
    serve = ("serve", "--listen", "127.0.0.1:0", "--data")
    with Server(tmp_path) as running:
        said = failure(rows, tmp_path, *serve, data)
        holder = f"process {running.process.pid} holds its lock"
        assert said == ("data-locked", f"cannot open {data}: {holder}")
        address = f"127.0.0.1:{running.port}"
        code, message = failure(
            rows, tmp_path, "serve", "--listen", address, "--data", tmp_path / "other"
        )
        assert code == "address-unavailable"
        assert message.startswith(f"cannot listen on {address}: ")
        assert running.stop() == 0
    code, message = failure(rows, tmp_path, "dev", "--listen", "127.0.0.1:0", "--data", data)
    assert code == "data-foreign" and "the folder of a node that is alone" in message
    (data / "seal.key").unlink()
    code, message = failure(rows, tmp_path, *serve, data)
    assert code == "data-damaged" and f"{data / 'seal.key'} is missing" in message
    (tmp_path / "file").write_text("no folder")
    code, message = failure(rows, tmp_path, *serve, tmp_path / "file" / "data")
    assert code == "io-failed" and f"creating {tmp_path / 'file' / 'data'}" in message
    missing = failure(rows, tmp_path, "check", "--data", tmp_path / "none")
    none = tmp_path / "none"
    assert missing == ("data-missing", f"cannot open {none}: there is no folder {none}")


def test_settings_that_are_impossible_are_told(rows, tmp_path):
    said = failure(rows, tmp_path, "serve", "--cache-mb", "0")
    assert said == ("configuration-invalid", "cache-mb must be between 1 and 1048576")
    code, message = failure(rows, tmp_path, "serve", "--config", tmp_path / "none.toml")
    assert code == "configuration-invalid" and "none.toml" in message


def test_a_command_line_that_is_not_known_is_told(rows, tmp_path):
    done = servers.fader("serve", "--no-such-flag", home=tmp_path, check=False)
    exit_code, action = rows["command-line-invalid"]
    assert done.returncode == exit_code == 2
    assert "--no-such-flag" in done.stderr
    assert done.stderr.endswith(f"\n  code: command-line-invalid\n  do: {action}\n")
    for words in [("--help",), ("--version",), ()]:
        assert "code:" not in servers.fader(*words, home=tmp_path, check=False).stderr


def test_clients_say_what_a_service_said(rows, tmp_path):
    own = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}
    wrong = own | {"AWS_SECRET_ACCESS_KEY": "another-secret-of-forty-characters-in-all"}
    with Server(tmp_path) as running:
        get = ("sdb", "get", "none", "item", "--endpoint", running.url)
        code, message = failure(rows, tmp_path, *get, **own)
        assert code == "request-refused" and "NoSuchDomain" in message
        code, message = failure(rows, tmp_path, *get, **wrong)
        assert code == "access-denied" and "SignatureDoesNotMatch" in message
        running.client().create_domain(DomainName="none")
        said = failure(rows, tmp_path, *get, **own)
        assert said == ("not-found", "none has no such item or attribute")
        assert running.stop() == 0
    code, _ = failure(rows, tmp_path, *get, **own)
    assert code == "unavailable"
    code, message = failure(rows, tmp_path, "s3", "cp", "a", "b", **own)
    assert code == "call-invalid" and "neither is s3://BUCKET/KEY" in message


def test_an_order_to_a_server_says_what_it_said(rows, tmp_path):
    with Server(tmp_path) as running:
        data = ("--data", running.data)
        code, message = failure(rows, tmp_path, "keys", "disable", "NONE", *data)
        assert code == "not-found" and "there is no access key NONE" in message
        again = ("keys", "import", servers.ACCESS_KEY, *data)
        secret = "another-secret-of-forty-characters-in-all"
        code, message = failure(rows, tmp_path, *again, text=secret)
        assert code == "already-exists" and "exists already" in message


def test_a_cluster_says_what_it_does_not_allow(rows, tmp_path):
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    try:
        place = ("--zookeeper", zookeeper.hosts)
        made = ("--cluster-key", tmp_path / "key", "--members", "n1,n2,n3")
        servers.fader("cluster", "init", *place, *made, home=tmp_path)
        said = {
            ("add", "n1"): "n1 is a node of the cluster already",
            ("decommission", "n9"): "n9 is no node of the cluster",
            ("decommission", "n1"): "2 nodes would be left, and chains have 3 members: add a node "
                                    "first, or replace this one",
            ("move", "0", "n1", "n2"): "chain 0 is no chain whose members can be moved by hand",
        }
        for words, message in said.items():
            failed = failure(rows, tmp_path, "cluster", *words, *place)
            assert failed == ("cluster-refused", message)
    finally:
        zookeeper.kill()


def test_a_domain_that_its_chain_has_not_is_told(page, tmp_path):
    """An old copy of the folder of a chain: the system chain names a domain that is not in it."""
    with Processes(tmp_path, names=("n1",), flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        chain = cluster.members["n1"].data / "chains" / "1"
        assert cluster.members["n1"].stop() == 0
        shutil.copytree(chain, tmp_path / "old")
        cluster.start("n1")
        sdb = cluster.members["n1"].client(read_timeout=30)
        at_any([sdb], lambda it: it.create_domain(DomainName="domain"))
        at_any([sdb], lambda it: put(it, "domain", "item", n="1"))
        assert cluster.members["n1"].stop() == 0
        shutil.rmtree(chain)
        shutil.copytree(tmp_path / "old", chain)
        await_restored(cluster, "--accept-loss")
        cluster.members["n1"] = cluster.new_member("n1", wait=False)
        await_restored(cluster, "--yes")
        cluster.members["n1"].await_listening()
        cluster.await_chains(cluster.are_whole)
        sdb = cluster.members["n1"].client(read_timeout=30)
        assert at_any([sdb], lambda it: it.list_domains())["DomainNames"] == ["domain"]
        code, message = answered(page, lambda: get(sdb, "domain", "item"))
        assert code == "domain-moves" and message.endswith("comes and goes)")
        # What the page says to do.
        sdb.delete_domain(DomainName="domain")
        sdb.create_domain(DomainName="domain")
        assert get(sdb, "domain", "item") == {}


def await_restored(cluster, flag):
    """Gives the order until the session of the member before is over, or the next one's begins."""
    order = ("cluster", "restore", "1", "--member", "n1", flag)
    place = ("--zookeeper", cluster.zookeeper.hosts)
    await_success(
        lambda: servers.fader(*order, *place, home=cluster.folder, check=False), cluster.log
    )


@contextlib.contextmanager
def slow_uploads(s3, bucket, count):
    """Uploads of a block each, as slow as the server lets them be: they take minutes."""
    uploads, is_over = [], threading.Event()
    for number in range(count):
        named = {"Bucket": bucket, "Key": f"slow-{number}"}
        url = urllib.parse.urlsplit(s3.generate_presigned_url("put_object", Params=named))
        upload = http.client.HTTPConnection(url.hostname, url.port)
        upload.putrequest("PUT", f"{url.path}?{url.query}")
        upload.putheader("Content-Length", str(4 << 20))
        upload.endheaders(bytes(1 << 20))
        uploads.append(upload)

    def go_on():
        while not is_over.wait(1):
            for upload in uploads:
                upload.send(bytes(16 << 10))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for upload in uploads:
            upload.close()


def test_an_upload_without_memory_is_told_to_come_later(page, tmp_path):
    with Server(tmp_path, "--block-memory-mb", "16") as server:
        s3 = client_of(server.url, retries={"max_attempts": 0}, read_timeout=120)
        s3.create_bucket(Bucket="films")
        with slow_uploads(s3, "films", 3):
            server.await_metric("fader_block_memory_bytes", lambda size: size == 15 << 20)
            code, message = answered(
                page, lambda: s3.put_object(Bucket="films", Key="quick", Body=bytes(1 << 20))
            )
        said = "uploads have all the memory that they may have"
        assert (code, message) == ("block-memory", said)
        s3.put_object(Bucket="films", Key="quick", Body=bytes(1 << 20))


def unusable(rows, home, *words):
    """The code and the message of a measurement that fails; 1 is a verdict."""
    done = servers.fader("measure", *words, home=home, check=False)
    # A run says its plan first.
    told = BLOCK.match(done.stderr[done.stderr.find("error: ") :])
    assert told, done.stderr
    message, code, action = told.groups()
    assert (done.returncode, action) == (2, rows[code][1]), done.stderr
    return code, message


def test_a_measurement_that_fails_says_the_next_step(rows, tmp_path):
    load = ("run", "a", "--rate", "1")
    wrong = {
        (*load, "--to-rate", "2"): "--to-rate needs --ramp, --step or --burst",
        (*load, "--levels", "strong=much"): "--levels: strong=much: ",
        (*load, "--target", "nowhere"): "--target: expected `model`, or a URL",
        (*load, "--target", "redis://host"): "redis://host: expected redis://HOST:PORT",
        ("staleness", "--target", "nowhere"): "--target is `model` or a URL",
        ("bookstore", "--clients", "0"): "at least one client and customer",
    }
    for words, start in wrong.items():
        code, message = unusable(rows, tmp_path, *words)
        assert code == "call-invalid" and message.startswith(start), (words, message)
    log = tmp_path / "empty.jsonl"
    log.write_text("")
    code, message = unusable(rows, tmp_path, "check", log)
    assert (code, message) == ("answer-malformed", f"there is no operation in {log}")
    with Server(tmp_path) as running:
        url = f"simpledb://?endpoint=http://127.0.0.1:{running.port}&unsigned=true"
        assert running.stop() == 0
    code, message = unusable(rows, tmp_path, *load, "--target", url)
    assert code == "unavailable" and message.startswith("cannot create the domain ")


class HangingService(http.server.BaseHTTPRequestHandler):
    """It creates and deletes domains, and answers nothing else."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        [action] = urllib.parse.parse_qs(body)["Action"]
        if action in ("CreateDomain", "DeleteDomain"):
            answer = f"<{action}Response></{action}Response>".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        else:
            self.server.asked.set()
            # Until the command goes away.
            self.rfile.read(1)
            self.close_connection = True

    do_GET = do_POST

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def hanging_service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), HangingService) as service:
        service.daemon_threads = True
        service.asked = threading.Event()
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


@pytest.mark.parametrize("command", [
    ("measure", "run", "a", "--rate", "10", "--target"),
    ("cloud", "list", "mem://", "--domains"),
], ids=lambda words: words[0])
def test_an_interrupt_ends_a_command_with_its_own_code(rows, tmp_path, command):
    with hanging_service() as service:
        url = f"simpledb://?endpoint=http://127.0.0.1:{service.server_port}&unsigned=true"
        process = subprocess.Popen(
            [servers.BINARY, *command, url], env=servers.environment(tmp_path),
            stderr=subprocess.PIPE, text=True,
        )
        assert service.asked.wait(servers.START_SECONDS_MAX)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    # A run says its plan first.
    told = BLOCK.match(stderr[stderr.find("error: ") :])
    assert told, stderr
    message, code, action = told.groups()
    assert (message, code) == ("interrupted", "interrupted")
    assert (process.returncode, action) == rows[code] and process.returncode == 130


def variants():
    """The name in Rust of each code."""
    sources = ROOT / "crates" / "services" / "src"
    texts = [(sources / name).read_text() for name in ("error_code.rs", "reason.rs")]
    pairs = [re.findall(r"(?:ErrorCode|Reason)::(\w+) => \"([a-z-]+)\"", text) for text in texts]
    return {code: variant for pair in pairs for variant, code in pair}


def test_each_code_has_a_test(rows):
    names = variants()
    assert set(names) == set(rows)
    rust = (ROOT / "crates").rglob("*.rs")
    rust = [path for path in rust if "test" in str(path.relative_to(ROOT))]
    texts = [path.read_text() for path in [*rust, *(ROOT / "tests").glob("*.py")]]
    without = {
        code for code, variant in names.items()
        if not any(
            f'"{code}"' in text or f"x-fader-reason: {code}" in text
            or f"ErrorCode::{variant}" in text or f"Reason::{variant}" in text
            for text in texts
        )
    }
    assert not without
