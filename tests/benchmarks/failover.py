"""What a member's faults cost its clients, and its return.

*Faults.* Head and tail of a chain are killed, cut off, held at their disk, and paused with their
clock (`benchmarks.faulted`). That is done on three and on five nodes. Told is the longest time
between two answers from the fault until the lease is long over. A client that hears nothing asks
another node after a quarter of a second, for reads and for writes alike.

*Return.* A member returns with an empty disk while clients put values at the other two
(`benchmarks.comeback`).

*Refusals.* What each phase was refused is told by the reason that refusals name. With `--cpu` each
member has a share of a core and no more, as beside others on a busy machine. Then refusals end
nothing, and figures are told and not judged."""

import collections
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile

import server as servers
from benchmarks import cluster as clusters
from benchmarks import comeback, faulted
from nemesis import __main__ as namespaces

LEASE_SECONDS = 2
SIZES = [3, 5]
PROMISED_STRONG_SECONDS = LEASE_SECONDS + 1
HUNG_SECONDS = LEASE_SECONDS + 2
# "None" for eventual operations: no more than one unanswered request and the next.
PROMISED_EVENTUAL_SECONDS = 0.5


def faults(options, report):
    """Each fault of a member at each place, in clusters of each size."""
    if reason := namespaces.why_not():
        print(f"failover: no faults: {reason}")
        report.missed += not report.is_small or namespaces.is_due()
        return
    launcher = servers.ROOT / "tests/zookeeper/serve.py"
    subprocess.run([sys.executable, launcher, "--fetch"], check=True)
    found = {}
    for size in SIZES[-1:] if options.small else SIZES:
        for binary, kinds in binaries().items():
            for one in silences(options, size, binary, kinds):
                key = one["fault"], one["place"], one["level"], one["kind"], one["where"]
                found.setdefault((size, *key), []).append(one["silence"])
    for (size, fault, place, level, kind, where), seconds in found.items():
        most = PROMISED_EVENTUAL_SECONDS
        if level == "strong":
            most = HUNG_SECONDS if fault == "hung disk" else PROMISED_STRONG_SECONDS
        name = f"{size} nodes, {place} {fault}: {level} {kind}s {where}".rstrip()
        report.at_most(name, seconds, most, "s")


def binaries():
    """Each build with the faults that are made with it. Only one with assertions lets its lease
    clock be set back; silences are of leases, not of its speed."""
    checked = servers.BINARY.parent.with_name("checked") / servers.BINARY.name
    if checked == servers.BINARY:
        return {checked: faulted.FAULTS}
    assert checked.exists(), f"no build with assertions: {checked}"
    return {servers.BINARY: faulted.FAULTS[:-1], checked: faulted.FAULTS[-1:]}


def silences(options, size, binary, kinds):
    """What `benchmarks.faulted` found, in namespaces of its own."""
    places = faulted.PLACES[:1] if options.small else faulted.PLACES
    with tempfile.TemporaryDirectory(prefix="fader-bench-", dir=options.scratch) as folder:
        words = [*namespaces.spaces(), sys.executable, "-m", "benchmarks.faulted", folder,
                 "--nodes", str(size), "--rounds", str(options.runs),
                 "--lease", str(LEASE_SECONDS),
                 "--faults", ",".join(kinds), "--places", ",".join(places)]
        if options.cpu is not None:
            words += ["--cpu", f"{options.cpu:.0%}"]
        done = subprocess.run(
            words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"FADER_BIN": str(binary)},
            preexec_fn=namespaces.end_with_parent,
        )
    return json.loads(done.stdout.splitlines()[-1])


def returns(options, report):
    """A member that lacks everything comes back under load."""
    lacks = (16 << 20) if options.small else (1 << 30)
    bytes_each = 1000
    found = []
    refused = collections.Counter()
    lease = f"{LEASE_SECONDS}s"
    with contextlib.ExitStack() as stack:
        share = stack.enter_context(clusters.shares(options.cpu))
        cluster = stack.enter_context(clusters.running(options.scratch, lease=lease))
        away = cluster.names[-1]
        others = [clusters.address(cluster, name) for name in cluster.names if name != away]
        fill = {"items": lacks // bytes_each, "bytes": bytes_each, "connections": 16}
        clusters.drive("fill", others[:1], **fill)
        clusters.patiently(lambda: clusters.caller(cluster, cluster.names[0]).ask(
            {"Action": "CreateDomain", "DomainName": "other"}, {}))
        share(cluster)
        put = {"domain": "other", "connections": 16, "bytes": 500}
        if options.cpu is not None:
            put["tolerant"] = True
        # Each load's stamps are above those of the loads before, also of the longest.
        stamps = itertools.count(1, 10_000_000)

        def rate(seconds):
            done = clusters.drive("put", others, seconds=seconds, stamp=next(stamps), **put)
            refused.update(done["refused"])
            refused["no answer"] += done["lost"]
            return done["rate"]

        for _ in range(options.runs):
            found.append(comeback.once(cluster, away, rate, options.small, share))
    report.counts("puts refused, by reason", refused)
    comeback.tell(report, "puts", f"{lacks >> 20} MB of values", found)


def run(options, report):
    print(f"failover: {servers.BINARY.name}, lease {LEASE_SECONDS} s, three copies")
    if options.cpu is not None:
        if reason := clusters.can_cap():
            print(f"failover: --cpu is not possible here: {reason}")
            report.missed += 1
            return
        print(f"failover: each member has {options.cpu:.0%} of a core; nothing is judged")
        report.is_small = True
    faults(options, report)
    returns(options, report)
