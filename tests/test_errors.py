"""Failures of commands: message, code, and what to do, as docs/reference/errors.md lists them."""

import contextlib
import http.server
import pathlib
import re
import signal
import subprocess
import threading
import urllib.parse

import pytest
import server as servers
from server import Server

ROOT = pathlib.Path(__file__).parent.parent
# Codes that no test names yet. The list only becomes shorter.
WITHOUT_A_TEST = set(
    """
    cluster-refused domain-moves block-memory
    """.split()
)

BLOCK = re.compile(r"\Aerror: (.+?)\n  code: ([a-z-]+)\n  do: ([^\n]+)\n\Z", re.DOTALL)


@pytest.fixture(scope="module")
def rows():
    """Exit code and action of each code, as the binary has them."""
    page = servers.fader("reference", "errors", home=".").stdout
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): (int(row[3]), row[5]) for row in cells if len(row) == 6}


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
        (*load, "--to-rate", "2"): "--to-rate needs --ramp or --step",
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
    assert without == WITHOUT_A_TEST
