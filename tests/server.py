"""Starts and stops the real binary, and makes clients for it."""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time
import urllib.request

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("FADER_BIN", ROOT / "target/release/fader")).resolve()

ACCESS_KEY = "FADERTESTKEY00000001"
SECRET_KEY = "a secret that only the tests know/+="

# The models of services, read once: a client takes 8 ms of a core with them, and 88 ms without.
MODELS = botocore.loaders.create_loader()

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def environment(home, **more):
    """The tests' own environment: no AWS or Fader setting of the caller, and no terminal width."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "FADER_", "BOTO", "COLUMNS"))
    }
    kept.update(HOME=str(home), AWS_EC2_METADATA_DISABLED="true", AWS_DEFAULT_REGION="us-east-1")
    kept.update(more)
    return kept


def signing(url):
    """What an SDK or a tool needs in its environment to reach the server."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": url,
    }


@contextlib.contextmanager
def killed_after(seconds, process):
    """A thread that reads meanwhile what a process says waits no longer than that: then it is
    killed."""
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


class Server:
    """A running `fader serve` on a free port."""

    VERB = "serve"

    def __init__(
        self, folder, *flags, data=None, root=True, wait=True,
        listen="127.0.0.1:0", before=(), more=None, binary=BINARY,
    ):
        self.folder = pathlib.Path(folder)
        self.data = pathlib.Path(data or self.folder / "data")
        self.errors = self.folder / "stderr.log"
        more = dict(more or {})
        if root:
            more.update(FADER_ROOT_ACCESS_KEY=ACCESS_KEY, FADER_ROOT_SECRET_KEY=SECRET_KEY)
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                [*before, binary, self.VERB, "--listen", listen, "--data", self.data, *flags],
                env=environment(self.folder, **more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.url = None
        if wait:
            self._await_listening()

    def _await_listening(self, seconds=START_SECONDS_MAX):
        # The line comes when requests are served; a server that says nothing is ended.
        with killed_after(seconds, self.process):
            line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.process.wait()
            raise RuntimeError(f"fader serve ended: {line!r}\n{self.log()}")
        self.url = line.removeprefix("listening on ").strip()

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def log(self):
        return self.errors.read_text()

    def await_log(self, text):
        """Waits until the server has logged it."""
        end = time.monotonic() + START_SECONDS_MAX
        while text not in self.log():
            assert time.monotonic() < end, f"{text!r} is not in\n{self.log()}"
            time.sleep(0.05)

    def metric(self, name):
        with urllib.request.urlopen(f"{self.url}/metrics") as page:
            lines = page.read().decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def await_metric(self, name, is_reached):
        end = time.monotonic() + START_SECONDS_MAX
        while not is_reached(self.metric(name)):
            assert time.monotonic() < end, (name, self.metric(name), self.log())
            time.sleep(0.02)

    def client(self, **settings):
        return client(self.url, **settings)

    def mode(self, *words):
        """What `fader cluster mode` prints."""
        return self._told("cluster", "mode", *words)

    def _told(self, *words):
        """What a command prints that speaks to this server."""
        done = subprocess.run(
            [BINARY, *words, "--data", self.data],
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=START_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def stop(self):
        """Ends the server in order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        """Ends the server with kill -9."""
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()


class Members:
    """What a cluster is awaited by: `roles` and `log` are its own."""

    ROLES_SECONDS_MAX = START_SECONDS_MAX

    def await_roles(self, is_reached):
        """Waits until the places of the members are as wanted."""
        end = time.monotonic() + self.ROLES_SECONDS_MAX
        while time.monotonic() < end:
            _, roles = self.roles()
            if is_reached(roles):
                return roles
            time.sleep(0.05)
        raise RuntimeError(f"not reached: {self.roles()}\n{self.log()}")


class Cluster(Members, Server):
    """A running `fader dev` on a free port."""

    VERB = "dev"

    def order(self, *words):
        """Gives an order to the cluster; what is printed."""
        return self._told("dev", *words)

    def roles(self):
        """The epoch, and each member's place."""
        lines = self.order("status").splitlines()
        epoch = int(lines[0].split()[1].rstrip(","))
        return epoch, {line.split()[0]: line.split()[2] for line in lines[1:]}


def client(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY, verify=None, **config):
    """A boto3 client that sends each request once."""
    config.setdefault("retries", {"max_attempts": 0})
    # Threads make clients, and must not share a session.
    session = botocore.session.Session()
    session.register_component("data_loader", MODELS)
    return boto3.session.Session(botocore_session=session).client(
        "sdb",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        verify=verify,
        config=Config(**config),
    )


def fader(*arguments, home, text=None, check=True, binary=BINARY, **more):
    """Runs a `fader` command to its end."""
    result = subprocess.run(
        [binary, *arguments],
        env=environment(home, **more),
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{arguments}: exit code {result.returncode}\n{result.stderr}")
    return result
