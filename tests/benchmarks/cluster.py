"""Clusters to be measured, and load on them by `fader-bench`."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import time

import server as servers
from nemesis.load import Caller, NotSent, Refusal, Unknown
from processes import Processes

BENCH = servers.BINARY.with_name("fader-bench")
CGROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
DOMAIN = "load"


@contextlib.contextmanager
def whole(scratch, **settings):
    """A whole cluster."""
    with tempfile.TemporaryDirectory(prefix="fader-bench-", dir=scratch) as folder:
        # One chain is measured, that of the system, which is on all members.
        with Processes(pathlib.Path(folder), flags=("--chains", "0"), **settings) as cluster:
            cluster.await_whole()
            yield cluster


@contextlib.contextmanager
def running(scratch, mode="mixed", **settings):
    """The same with a domain of a mode: in `mixed` strong and eventual writers meet."""
    with whole(scratch, **settings) as cluster:
        headers = {"x-fader-collection-mode": mode}
        create = {"Action": "CreateDomain", "DomainName": DOMAIN}
        patiently(lambda: caller(cluster, cluster.names[0]).ask(create, headers))
        yield cluster


def patiently(call, seconds=30):
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (NotSent, Unknown, Refusal):
            if end < time.monotonic():
                raise
            time.sleep(0.1)


def address(cluster, name):
    return cluster.members[name].url.removeprefix("http://")


def caller(cluster, name):
    host, port = address(cluster, name).split(":")
    return Caller(host, int(port))


def drive(operation, addresses, kind="drive", **options):
    """Runs load to its end; what it was."""
    return told(start(operation, addresses, kind, **options))


def start(operation, addresses, kind="drive", **options):
    """Begins load, of SimpleDB or of objects; `told` waits for its end."""
    words = [BENCH, kind, operation, "--to", ",".join(addresses)]
    for name, value in options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    signing = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}
    return subprocess.Popen(words, env=os.environ | signing, stdout=subprocess.PIPE, text=True)


def told(running):
    output, _ = running.communicate()
    if running.returncode != 0:
        raise RuntimeError(f"{running.args}: exit code {running.returncode}")
    return json.loads(output) if output else None


@contextlib.contextmanager
def capped(share):
    """A way to give processes a share of one core each: `cap(name, pid)` (cgroup v1)."""
    ours = CGROUPS / f"fader-bench-{os.getpid()}"
    groups = [ours]
    ours.mkdir()

    def cap(name, pid):
        group = ours / name
        group.mkdir()
        groups.append(group)
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
        (group / "cgroup.procs").write_text(str(pid))

    try:
        yield cap
    finally:
        for group in reversed(groups):
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.05)


@contextlib.contextmanager
def shares(cpu):
    """What gives the members of a cluster that have none their shares; all there is without."""
    if cpu is None:
        yield lambda _: None
        return
    with capped(cpu) as cap:
        numbers = itertools.count(1)
        known = set()

        def share(cluster):
            for name, member in cluster.members.items():
                pid = member.process.pid
                if pid not in known:
                    known.add(pid)
                    cap(f"{name}-{next(numbers)}", pid)

        yield share


def can_cap():
    """Why no shares can be given here; nothing if they can."""
    if not (CGROUPS / "cpu.cfs_quota_us").exists():
        return f"no quota of processor time in {CGROUPS} (cgroup v1)"
    return "" if os.access(CGROUPS, os.W_OK) else f"{CGROUPS} cannot be written to"
