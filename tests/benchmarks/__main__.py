"""`python -m benchmarks NAME`: failover, delay, scaling, scale, etcd, attacks, replicas, mapreduce,
database or join."""

import argparse
import pathlib
import sys
import tempfile

from benchmarks import attacks, database, delay, etcd, failover, figures, join, mapreduce
from benchmarks import replicas, scale, scaling

BENCHMARKS = {
    "failover": failover,
    "delay": delay,
    "scaling": scaling,
    "scale": scale,
    "etcd": etcd,
    "attacks": attacks,
    "replicas": replicas,
    "mapreduce": mapreduce,
    "database": database,
    "join": join,
}


def numbers(text):
    return [int(number) for number in text.split(",")]


def parts(text):
    names = text.split(",")
    if unknown := set(names) - set(mapreduce.PARTS):
        raise ValueError(unknown)
    return names


def options():
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--runs", type=int, default=5, help="of each side, interleaved")
    parser.add_argument("--small", action="store_true", help="shows that it works, judges nothing")
    parser.add_argument("--cpu", type=figures.share,
                        help="of one core for each member, such as 60%% (failover)")
    parser.add_argument("--nodes", type=numbers,
                        help="sizes of clusters to compare, such as 3,6,12 (scale)")
    parser.add_argument("--before", type=pathlib.Path,
                        help="the binary of an earlier build to compare with (scale, etcd)")
    parser.add_argument("--scratch", type=pathlib.Path, default=tempfile.gettempdir())
    parser.add_argument("--keep", type=pathlib.Path,
                        help="what is drawn, and the numbers it is drawn from (delay)")
    parser.add_argument("--only", type=parts, help="such as index,links (mapreduce)")
    parser.add_argument("--mb", type=int, help="of blocks that the member lacks (join)")
    chosen = parser.parse_args()
    if chosen.cpu is not None and chosen.name != "failover":
        parser.error("--cpu is for failover")
    if chosen.only is not None and chosen.name != "mapreduce":
        parser.error("--only is for mapreduce")
    if chosen.mb is not None and chosen.name != "join":
        parser.error("--mb is for join")
    if chosen.small:
        chosen.runs = 1
    return chosen


chosen = options()
report = figures.Report(chosen.small)
BENCHMARKS[chosen.name].run(chosen, report)
sys.exit(report.code())
