"""The commands of docs/tutorials/processes.md, line by line in one shell, on ports of their own."""

import contextlib
import pathlib
import re
import subprocess
import sys
import time

import pytest

import server as servers
from ports import free_port
from processes import LAUNCHER, START_SECONDS_MAX
from test_documents import blocks, on_path

DOCUMENT = "docs/tutorials/processes.md"
ZOOKEEPER = pathlib.Path("/usr/share/zookeeper/bin/zkServer.sh")
PORTS = ["2181", "4566", "4567", "4568", "4571", "4572", "4573"]
DONE = "-- done"


class Shell:
    """A shell that runs one line after the other, with the jobs of the lines before."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env=on_path(folder), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def run(self, line):
        """What is printed until the line is done."""
        self.process.stdin.write(f"{line}\necho $? '{DONE}'\n")
        self.process.stdin.flush()
        shown = []
        with servers.killed_after(START_SECONDS_MAX, self.process):
            for told in self.process.stdout:
                if told.endswith(f" {DONE}\n"):
                    assert told == f"0 {DONE}\n", f"{line}: {''.join(shown)}"
                    return "".join(shown)
                shown.append(told)
        raise AssertionError(f"{line}: {''.join(shown)}")

    def until(self, line, is_so):
        """Runs a line that looks, until what it shows is so."""
        end = time.monotonic() + START_SECONDS_MAX
        while not is_so(shown := self.run(line)):
            assert time.monotonic() < end, shown
            time.sleep(0.1)
        return shown


@contextlib.contextmanager
def zookeeper(shell, command, folder):
    """Debian's server as the document starts it; else the tests' own with the document's file."""
    if ZOOKEEPER.exists():
        shell.run(command)
        yield
        return
    process = subprocess.Popen(
        [sys.executable, LAUNCHER, folder / "zoo.cfg"], cwd=folder, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def documented():
    """The file, the commands and what they show, with ports that are free."""
    ports = {port: str(free_port()) for port in PORTS}

    def moved(text):
        text = re.sub(r"--zookeeper 127\.0\.0\.1(?!:)", "--zookeeper 127.0.0.1:2181", text)
        return re.sub("|".join(PORTS), lambda found: ports[found[0]], text)

    kinds = ["properties", "sh", "text"]
    return ([moved(text) for text in blocks(DOCUMENT, kind)] for kind in kinds)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    # Its jobs, and no process of another test.
    with contextlib.suppress(OSError, AssertionError):
        shell.run("kill -9 $(jobs -p) || true")
    shell.process.kill()
    shell.process.wait()
    shell.process.stdin.close()
    shell.process.stdout.close()


def test_the_head_of_a_trial_is_killed_and_the_next_write_is_acknowledged(tmp_path, shell):
    [settings], commands, told = documented()
    [zoo], init, serve, [status], [*write, why], [kill, *again, after], [back, _], [end] = (
        code.splitlines() for code in commands
    )
    whole, waits, misses = told
    (tmp_path / "zoo.cfg").write_text(settings)
    with zookeeper(shell, zoo, tmp_path):
        for line in [*init, *serve]:
            shell.run(line)
        logs = [tmp_path / f"n{number}.log" for number in [1, 2, 3]]
        shell.until("true", lambda _: all(
            log.exists() and "serving address=" in log.read_text() for log in logs))
        shell.until(status, lambda shown: steady(shown) == steady(whole))
        assert "hello" in [shell.run(line) for line in write][-1]
        shell.until(why, lambda shown: steady(shown) == steady(waits))
        shell.run(kill)
        assert "again" in [shell.run(line) for line in again][-1]
        shell.until(after, lambda shown: told_in(misses, shown))
        shell.run(back)
        is_back = f"\nn2           serving  127.0.0.1:{port_of(back)}\n"
        shell.until(status, lambda shown: is_back in shown)
        shell.run(end)
        shell.run("wait || true")
    # A node is called by its name, not by the number of its disk.
    calls = re.compile(r"connected to a node peer=(\S+) address=127\.0\.0\.1:(\d+)")
    called = {call for log in logs for call in calls.findall(log.read_text())}
    assert called == {(f"n{number}", port_of(line)) for number, line in enumerate(serve[1:], 1)}


def steady(shown):
    """Without what a slow machine may change: epochs, heads, and announcements of a job."""
    lines = [line for line in shown.splitlines() if not line.startswith("listening on ")]
    lines = [re.sub(r"epoch \d+|, head n\d", "", line) for line in lines]
    return [sorted(line.replace("head", "serving").replace(",", "").split()) for line in lines]


def told_in(expected, shown):
    return all(line in steady(shown) for line in steady(expected))


def port_of(command):
    return re.search(r"--peer-listen \S+:(\d+)", command)[1]
