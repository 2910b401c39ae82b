"""What it costs those who put and get objects that a member joins which lacks all blocks.

Clients put and get objects of 4 KiB in turns, and now and then get one of 8 MiB, at two of three
members (`benchmarks.comeback`). The third returns with an empty disk. Each time it must hold the
blocks of all objects. In the end it serves alone, and every object of 8 MiB is read there and
compared."""

import collections
import time

import server as servers
from benchmarks import cluster as clusters
from benchmarks import comeback

OBJECT_MB, BLOCKS = 8, 2
MB, MB_SMALL = 2048, 64
BLOCKS_SECONDS_MAX = 30


def drive(operation, addresses, **options):
    return clusters.drive(operation, addresses, kind="objects", **options)


def await_blocks(member, least):
    """The member holds so many blocks; how many, and their bytes."""
    end = time.monotonic() + BLOCKS_SECONDS_MAX
    while (held := member.metric("fader_blocks")) < least:
        assert time.monotonic() < end, f"{held} blocks, and must be {least}"
        time.sleep(0.1)
    return held, member.metric("fader_block_bytes")


def run(options, report):
    megabytes = options.mb or (MB_SMALL if report.is_small else MB)
    objects = megabytes // OBJECT_MB
    print(f"join: {servers.BINARY.name}, three members, {megabytes} MiB in objects of 8 MiB")
    failed = collections.Counter()
    done = collections.Counter()
    with clusters.whole(options.scratch) as cluster:
        away = cluster.names[-1]
        others = [clusters.address(cluster, name) for name in cluster.names if name != away]
        drive("fill", others[:1], objects=objects)

        def rate(seconds):
            told = drive("mix", others, objects=objects, seconds=seconds)
            failed.update(told["failed"])
            done.update({name: told[name] for name in ("puts", "gets", "large")})
            return told["rate"]

        found = []
        for _ in range(options.runs):
            found.append(comeback.once(cluster, away, rate, report.is_small))
            held, size = await_blocks(cluster.members[away], BLOCKS * objects)
        report.counts("operations", done)
        report.counts("refused or not answered", failed)
        comeback.tell(report, "operations", f"{held} blocks of {size >> 20} MiB", found)
        for name in cluster.names:
            if name != away:
                cluster.kill(name)
                cluster.await_roles(lambda roles, name=name: roles[name] == "out")
        drive("read", [clusters.address(cluster, away)], objects=objects)
        report.promise("every object is read at the third, alone", True, "all")
