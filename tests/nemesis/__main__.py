"""`python -m nemesis --minutes M --seed N`: attacks a cluster and judges what its clients saw.

What is attacked lives in namespaces of its own for networks, mounts and processes. All of it ends
with the first process in it, in any way of its end, and nothing of it is seen outside."""

import argparse
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import server as servers
from nemesis import judge
from nemesis.besieged import clock_library

CLUSTER_SECONDS = 300
# From so many minutes on there are three servers of ZooKeeper, if no number is given.
THREE_MINUTES = 5
SPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
PR_SET_PDEATHSIG = 1


def unshare(*spaces):
    """What runs a command in such namespaces of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *spaces]


def spaces():
    """All of what is attacked."""
    return unshare(*SPACES)


def is_due():
    """Whether it must run with all kinds of faults, or fail: on the build machine."""
    return "CI" in os.environ


def why_not():
    """Why it cannot run here; nothing if it can. Clocks can be left out, but where it is due."""
    packages = {"unshare": "util-linux", "ip": "iproute2"}
    lacking = [f"{name} (Debian: {package})" for name, package in packages.items()
               if shutil.which(name) is None]
    if is_due() and not clock_library():
        lacking.append("libfaketime (Debian: faketime)")
    if lacking:
        return f"missing: {', '.join(lacking)}"
    probe = "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip netns add probe"
    tried = subprocess.run([*spaces(), "sh", "-c", probe], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def options():
    parser = argparse.ArgumentParser(prog="nemesis", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3, choices=[3, 4, 5])
    parser.add_argument("--zookeepers", type=int, choices=[1, 3],
                        help=f"servers of ZooKeeper; 3 from {THREE_MINUTES} minutes on")
    parser.add_argument("--lease", type=int, default=2, help="seconds")
    parser.add_argument("--service", default="simpledb", choices=["simpledb", "sqs", "s3"])
    parser.add_argument("--kill-every", type=float, help="seconds; nothing else is done then")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the history and the logs")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    chosen.zookeepers = chosen.zookeepers or (3 if THREE_MINUTES <= chosen.minutes else 1)
    return chosen


def main():
    chosen = options()
    if chosen.inside:
        from nemesis import siege

        return siege.run(chosen, chosen.inside)
    reason = why_not()
    if reason:
        print(f"nemesis: {'cannot run' if is_due() else 'skipped'}: {reason}")
        return 1 if is_due() else 0
    if chosen.service == "simpledb":
        judge.build()
    subprocess.run([sys.executable, servers.ROOT / "tests/zookeeper/serve.py", "--fetch"],
                   check=True)
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        folder = pathlib.Path(folder)
        code = besiege(chosen, folder)
        # What is told of queues and objects is judged by those who asked.
        if chosen.service == "simpledb":
            code = code or judge.run(folder)
        if code and not chosen.keep:
            chosen.keep = pathlib.Path(tempfile.mkdtemp(prefix="siege-failed-"))
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            for path in [*folder.glob("*.jsonl"), *folder.glob("*.log")]:
                shutil.copy(path, chosen.keep)
            print(f"history and logs: {chosen.keep}")
    return code


def besiege(chosen, folder):
    """The attack, bounded in time; its exit code."""
    again = [*spaces(), sys.executable, "-m", "nemesis", "--inside", folder,
             "--minutes", str(chosen.minutes), "--seed", str(chosen.seed),
             "--nodes", str(chosen.nodes), "--lease", str(chosen.lease),
             "--zookeepers", str(chosen.zookeepers),
             "--service", chosen.service]
    if chosen.kill_every:
        again += ["--kill-every", str(chosen.kill_every)]
    bound = chosen.minutes * 60 + CLUSTER_SECONDS
    attack = subprocess.Popen(again, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
    try:
        return attack.wait(bound)
    except subprocess.TimeoutExpired:
        print(f"nemesis: not done {CLUSTER_SECONDS} s after its time")
        return 1
    finally:
        attack.kill()
        attack.wait()


if __name__ == "__main__":
    start = time.monotonic()
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    print(f"nemesis: {time.monotonic() - start:.0f} s, exit code {code}")
    sys.exit(code)
