"""Strong writes and linearizable reads of one 500 B value against three etcd servers on the same
machine. It compares signed PutAttributes and GetAttributes of SimpleDB with etcd's gRPC, 64
connections. Every write is on every disk (etcd: on two of three) before it is acknowledged.

With `--before` members of an earlier build are a third side."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

import server as servers
from benchmarks import cluster as clusters
from ports import free_address

SOURCES = servers.ROOT / "tests" / "etcd"
PROGRAMS = servers.ROOT / "target" / "etcd"
PROMISED = {"put": 2, "get": 3}
# This build's rate to that of an earlier one.
PROMISED_BEFORE = 0.97
CONNECTIONS = 64
ITEMS = 1000
START_SECONDS_MAX = 30


def build():
    words = ["go", "build", "-o", f"{PROGRAMS}/", ".", "./load"]
    subprocess.run(words, cwd=SOURCES, check=True)


class Etcd:
    """Three servers. What they tell each other goes by the addresses that `by` gives for theirs."""

    def __init__(self, folder, by=lambda peer: peer):
        self.clients = [free_address() for _ in range(3)]
        peers = [free_address() for _ in range(3)]
        told = [by(peer) for peer in peers]
        cluster = ",".join(f"e{n}=http://{peer}" for n, peer in enumerate(told))
        self.processes = []
        for number, (client, peer) in enumerate(zip(self.clients, peers, strict=True)):
            words = [
                PROGRAMS / "etcd", "--name", f"e{number}", "--data-dir", folder / f"e{number}",
                "--listen-client-urls", f"http://{client}",
                "--advertise-client-urls", f"http://{client}", "--listen-peer-urls",
                f"http://{peer}", "--initial-advertise-peer-urls", f"http://{told[number]}",
                "--initial-cluster", cluster, "--log-level", "error",
            ]
            with open(folder / f"e{number}.log", "wb") as log:
                self.processes.append(subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def await_healthy(self):
        end = time.monotonic() + START_SECONDS_MAX
        for client in self.clients:
            while True:
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://{client}/health", timeout=2) as health:
                        if json.load(health)["health"] == "true":
                            break
                if end < time.monotonic():
                    raise RuntimeError("etcd does not become healthy")
                time.sleep(0.1)

    def drive(self, operation, seconds):
        words = [PROGRAMS / "load", operation, "-to", ",".join(self.clients), "-items", str(ITEMS),
                 "-connections", str(CONNECTIONS), "-seconds", str(seconds)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout) if operation != "fill" else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def run(options, report):
    if shutil.which("go") is None:
        print("etcd: skipped: go is missing, with which it is built (Debian: golang)")
        return
    build()
    print("etcd: three members each, on this machine, 64 connections, 500 B")
    seconds = 1 if options.small else 10
    builds = {"Fader": servers.BINARY}
    if options.before:
        builds["before"] = options.before
    with contextlib.ExitStack() as stack:
        started = {
            build: stack.enter_context(
                clusters.running(options.scratch, mode="strong", binary=binary))
            for build, binary in builds.items()
        }
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.scratch))
        etcd = stack.enter_context(Etcd(pathlib.Path(folder)))
        etcd.await_healthy()
        for operation, promised in PROMISED.items():
            # What is read is as it was filled, after any puts.
            etcd.drive("fill", seconds)
            sides = {
                build: filled(cluster, operation, seconds) for build, cluster in started.items()
            }
            sides["etcd"] = lambda _, operation=operation: metered(
                etcd.processes, lambda: etcd.drive(operation, seconds))
            compare(options, report, operation, promised, sides)


def filled(cluster, operation, seconds):
    """What drives a cluster in a run, in a domain that is filled."""
    members = [clusters.address(cluster, name) for name in cluster.names]
    domain = f"{clusters.DOMAIN}-{operation}"
    clusters.caller(cluster, "n1").ask({"Action": "CreateDomain", "DomainName": domain}, {})
    load = {"domain": domain, "items": ITEMS, "connections": CONNECTIONS}
    clusters.drive("fill", members[:1], **load)
    processes = [member.process for member in cluster.members.values()]
    return lambda run: metered(processes, lambda: clusters.drive(
        operation, members, seconds=seconds, stamp=1 + run * 10_000_000, **load))


def metered(processes, drive):
    """What `drive` measured, and what processor time the processes took for each request."""
    before = processor_seconds(processes)
    found = drive()
    taken = processor_seconds(processes) - before
    return found | {"cpu_us": taken * 1e6 / found["done"]}


def processor_seconds(processes):
    ticks = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def compare(options, report, operation, promised, sides):
    found = {side: [] for side in sides}
    for run in range(options.runs):
        for side in sorted(sides, reverse=run % 2 == 1):
            found[side].append(sides[side](run))
    for side, runs in found.items():
        report.series(f"{side} {operation}", [one["rate"] for one in runs], "/s")
        report.series(f"{side} {operation}: p50", [one["p50_ms"] for one in runs], "ms")
        report.series(f"{side} {operation}: p99", [one["p99_ms"] for one in runs], "ms")
        processor = [one["cpu_us"] for one in runs]
        report.series(f"{side} {operation}: processor time", processor, "us")
    rates = {side: [one["rate"] for one in runs] for side, runs in found.items()}
    report.ratio(f"{operation}: Fader / etcd", rates["Fader"], rates["etcd"], promised)
    if "before" in rates:
        name = f"{operation}: this build / before"
        report.ratio(name, rates["Fader"], rates["before"], PROMISED_BEFORE)
