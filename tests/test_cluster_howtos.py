"""The commands of the documents about clusters: those of each `console` block, in order, against
processes and ZooKeeper. What a document shows below a command is what it prints, but for times and
ports."""

import re
import subprocess
import time

import server as servers
from processes import Processes
from server import ROOT

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
# What differs from one run to the next.
VARIES = [
    (re.compile(r"\[ *[0-9.]+s\]"), "[TIME]"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
]


def consoles(document):
    """Each command of a document's consoles, with the lines that are shown below it."""
    found = []
    for block in CONSOLE.findall((ROOT / document).read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                command, _, _ = line.removeprefix("$ ").partition("#")
                found.append((command.strip(), []))
            elif line:
                found[-1][1].append(line)
    return found


def steady(lines):
    """Lines without what differs from one run to the next."""
    told = []
    for line in lines:
        for pattern, name in VARIES:
            line = pattern.sub(name, line)
        told.append(line)
    return told


def environment(folder, **more):
    kept = servers.environment(folder, **more)
    kept["PATH"] = f"{servers.BINARY.parent}:{kept['PATH']}"
    return kept


def run(cluster, command, check=True):
    """What comes of a command of a document, at the ZooKeeper of this cluster."""
    line = re.sub(r"--zookeeper \S+", f"--zookeeper {cluster.zookeeper.hosts}", command)
    assert line != command, command
    done = subprocess.run(
        ["sh", "-ec", line], cwd=cluster.folder, env=environment(cluster.folder),
        capture_output=True, text=True, timeout=300,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stderr}\n{cluster.log()}"
    return done


def runs_as_shown(cluster, command, shown):
    assert steady(run(cluster, command).stdout.splitlines()) == steady(shown), command


def test_the_tutorial_of_a_cluster(tmp_path):
    (begin, first), *orders = consoles("docs/tutorials/cluster.md")
    assert begin == "fader dev" and len(orders) == 2
    told = tmp_path / "told"
    more = environment(tmp_path, FADER_LISTEN="127.0.0.1:0")
    with open(told, "wb") as file:
        cluster = subprocess.Popen(
            ["sh", "-c", f"exec {begin}"], cwd=tmp_path, env=more, stdout=file, stderr=file
        )
    try:
        await_lines(told, first)
        for command, events in orders:
            done = subprocess.run(
                ["sh", "-ec", command], cwd=tmp_path, env=more, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{command}: {done.stderr}\n{told.read_text()}"
            await_lines(told, events)
    finally:
        cluster.terminate()
        assert cluster.wait(servers.STOP_SECONDS_MAX) == 0


def await_lines(told, expected):
    """Waits until a file has these lines, in this order; others may stand between them."""
    end = time.monotonic() + servers.START_SECONDS_MAX
    while True:
        lines = iter(steady(told.read_text().splitlines()))
        missing = [line for line in steady(expected) if line not in lines]
        if not missing:
            return
        assert time.monotonic() < end, f"{missing} in {told.read_text()}"
        time.sleep(0.05)


def test_an_upgrade_of_a_node(tmp_path):
    on, off, status = consoles("docs/how-to/upgrade.md")
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        runs_as_shown(cluster, *on)
        assert cluster.members["n1"].stop() == 0
        cluster.start("n1")
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        runs_as_shown(cluster, *off)
        whole = run(cluster, status[0]).stdout
        assert all(f"\n{name} " in f"\n{whole}" for name in cluster.names), whole
