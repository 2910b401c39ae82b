"""Clients that commit one record after the other to one collection, beside Delta Lake's appends.

All are at one S3 server, gofakes3, that lets each request wait: 25 ms is a near region's time. It
keeps objects in memory, and its conditional PUTs are atomic.

The server has what is acknowledged. A commit of Fader is one object in a queue: the collection's at
Basic, the database's at Atomic. Its pages follow by checkpoints, the first of them 15 s later and
still within the time. An append of Delta Lake is a Parquet file and an entry of the log, and its
readers see it at once. At the end a new client of each reads how many records there are."""

import json
import os
import pathlib
import subprocess
import sys

import clouds
from benchmarks import mapreduce

HERE = pathlib.Path(__file__).parent
DELAY_MS = 25
CLIENTS, CLIENTS_SMALL = 64, 4
SECONDS, SECONDS_SMALL = 20, 1
LEVELS = ["basic", "atomic"]
FACTOR = 20
# Of one side in one round: a commit under way at the end, and all checkpoints, are waited for.
PATIENCE_SECONDS = 900


def compare(options, report, folder):
    clients = CLIENTS_SMALL if options.small else CLIENTS
    seconds = SECONDS_SMALL if options.small else SECONDS
    load = ["--clients", clients, "--seconds", seconds]
    with clouds.gofakes3(folder, DELAY_MS) as url:
        bucket = f"s3://{clouds.BUCKET}"
        sides = {
            level: lambda to, level=level: [
                mapreduce.BENCH, "commits", f"{to}?endpoint={url}", "--level", level, *load]
            for level in LEVELS
        }
        python = mapreduce.engines("deltalake")
        sides["deltalake"] = lambda to: [
            python, HERE / "deltalake_commits.py", to, url, clients, seconds]
        rates = {name: [] for name in sides}
        for run in range(options.runs):
            for name, command in sides.items():
                rates[name].append(rate(report, name, command(f"{bucket}/{name}-{run}"), seconds))
    for name, found in rates.items():
        report.series(f"{clients} clients, {name}: commits", found, "/s")
    for level in LEVELS:
        report.ratio(f"{clients} clients, {level}: commits / deltalake's", rates[level],
                     rates["deltalake"], FACTOR)


def rate(report, name, command, seconds):
    """Commits a second."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          env=os.environ | clouds.KEYS, timeout=PATIENCE_SECONDS)
    if done.returncode != 0:
        sys.exit(f"{name} ends with {done.returncode}")
    found = json.loads(done.stdout)
    is_whole = found["records"] == found["within"] + found["late"]
    report.promise(f"{name}: all that was committed is there", is_whole, "always")
    return found["within"] / seconds
