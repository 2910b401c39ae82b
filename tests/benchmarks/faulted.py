"""`python -m benchmarks.faulted FOLDER --nodes N --rounds N`: silences around faults of one member.

It runs in namespaces of its own: there a member can be cut off. Disks lie in memory. One chain has
three copies. Its head and its tail are in turn killed, cut off from members and ZooKeeper, held at
their disk, and paused with their lease clock. The one between them is killed. Clients reach all of
them all the time.

Clients ask for one thing after the other, at one node after the other, at each level. Where a node
has no copy, other clients ask there alone. The last line of the output is JSON: the silences."""

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import signal
import sys
import time

import hung
import server as servers
from benchmarks import cluster as clusters
from benchmarks import figures
from nemesis import ensemble, load
from nemesis.besieged import CLOCK_READ_SECONDS, COPIES, Besieged
from nemesis.load import Caller, NotSent, Refusal, Unknown
from nemesis.network import Network

CHAIN = "chain 1"
TRY_SECONDS = 0.25
PATIENCE_SECONDS = 60
FAULTS = ["killed", "cut off", "hung disk", "stopped clock"]
PLACES = ["head", "middle", "tail"]
ANYWHERE = [
    ("strong", "read"),
    ("strong", "write"),
    ("eventual", "look"),
    ("eventual; r=2", "look"),
    ("eventual; w=1", "add"),
]
OUTSIDE = [key for key in ANYWHERE if key[0] != "strong"]


def beside(function, *arguments):
    """Calls it in a thread of its own. A thread that asks for the result is told of what failed."""
    thread = concurrent.futures.ThreadPoolExecutor(1)
    result = thread.submit(function, *arguments)
    thread.shutdown(wait=False)
    return result


class Prober:
    """Asks for one thing again and again, and keeps the moments of the answers."""

    def __init__(self, addresses, level, kind):
        self.callers = [Caller(*address) for address in addresses]
        self.level, self.kind = level, kind
        self.moments = []
        self.is_ending = False
        self.asking = beside(self._ask)

    def _ask(self):
        for one in self.callers:
            one.connection.timeout = TRY_SECONDS
        for serial, one in zip(itertools.count(), itertools.cycle(self.callers)):
            if self.is_ending:
                return
            asked = {"op": self.kind, "item": "probe", "value": str(serial % 100)}
            try:
                one.ask(load.parameters(asked, clusters.DOMAIN),
                        {"x-fader-consistency": self.level})
                self.moments.append(time.monotonic())
            except (NotSent, Unknown, Refusal):
                pass
            time.sleep(0.01)

    def await_answer(self):
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.moments and not self.asking.done():
            assert time.monotonic() < end, f"no answer to {self.level} {self.kind}"
            time.sleep(0.05)

    def longest(self, start):
        """The longest silence that was not over at `start`."""
        self.is_ending = True
        self.asking.result()
        asked = f"{self.level} {self.kind}"
        assert any(moment < start for moment in self.moments), f"no answer to {asked}"
        moments = [start, *[moment for moment in self.moments if start < moment], time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(moments))


class Faulted(Besieged):
    """A besieged cluster with a context for each fault."""

    @contextlib.contextmanager
    def kill_member(self, name):
        self.kill(name)
        yield
        self.start(name)

    @contextlib.contextmanager
    def cut_off(self, name):
        others = [*[one for one in self.names if one != name], *self.zookeeper.names]
        for one in others:
            self.network.lose(name, one)
            self.network.lose(one, name)
        yield
        self.network.heal()

    def hang_disk(self, name):
        return hung.held(self.members[name].process.pid, "chain")

    @contextlib.contextmanager
    def stop_clock(self, name):
        self.pause(name)
        yield
        self.resume(name)
        # A machine asks for the time when it goes on. A member whose clock is wrong takes no
        # eventual writes.
        self.set_clock(name, 0)
        time.sleep(2 * CLOCK_READ_SECONDS)

    def fault(self, kind, name):
        ways = [self.kill_member, self.cut_off, self.hang_disk, self.stop_clock]
        return ways[FAULTS.index(kind)](name)


def silences(cluster, fault, place, share, seconds):
    """The longest silence of each kind of operation, from the fault until it ends."""
    copies = cluster.chains()[CHAIN]
    # In the order of their seats.
    victim = list(copies)[PLACES.index(place)]
    assert (copies[victim] == "head") == (place == "head"), copies
    address = cluster.client_address
    probers = {(*key, ""): Prober(map(address, cluster.names), *key) for key in ANYWHERE}
    for outside in [name for name in cluster.names if name not in copies][:1]:
        for key in OUTSIDE:
            probers[*key, "at a node without a copy"] = Prober([address(outside)], *key)
    for prober in probers.values():
        prober.await_answer()
    start = time.monotonic()
    with cluster.fault(fault, victim):
        time.sleep(seconds)
        found = {key: prober.longest(start) for key, prober in probers.items()}
    share(cluster)
    cluster.await_full()
    return [{"fault": fault, "place": place, "level": level, "kind": kind, "where": where,
             "silence": silence} for (level, kind, where), silence in found.items()]


def options():
    parser = argparse.ArgumentParser(prog="benchmarks.faulted", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--lease", type=int, required=True, help="seconds")
    parser.add_argument("--faults", required=True, help="with commas between them")
    parser.add_argument("--places", required=True, help="with commas between them")
    parser.add_argument("--cpu", type=figures.share)
    return parser.parse_args()


def main():
    chosen = options()
    # The first process of its namespace hears of no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = [f"n{number}" for number in range(1, chosen.nodes + 1)]
    network = Network([*names, *ensemble.names_of(1)])
    flags = ("--chains", "1", "--copies", str(COPIES))
    settings = {"wiring": "chain", "lease": f"{chosen.lease}s", "flags": flags,
                "binary": servers.BINARY}
    found = []
    with clusters.shares(chosen.cpu) as share, Faulted(
        chosen.folder, network, names, **settings
    ) as cluster:
        cluster.await_full()
        share(cluster)
        create = {"Action": "CreateDomain", "DomainName": clusters.DOMAIN}
        first = Caller(*cluster.client_address(names[0]))
        clusters.patiently(lambda: first.ask(create, {"x-fader-collection-mode": "mixed"}))
        for _ in range(chosen.rounds):
            for fault, place in itertools.product(
                chosen.faults.split(","), chosen.places.split(",")
            ):
                if place == "middle" and fault != FAULTS[0]:
                    continue
                found += silences(cluster, fault, place, share, chosen.lease + 3)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
