"""Many nodes and many chains on loopback.

*Idle.* Five processes, and processor time of each while nothing changes; with `--before`, beside
that of an earlier build in a cluster of the same shape. ZooKeeper's requests in that time are
counted, too: they are pings and reads of sessions.

*Whole.* Fifteen processes with 64 chains of three members each. Told is the time until each chain
has all its members: after the start, and after the return of a node that was killed. Between them
is the time until all chains go on without it.

*Nodes.* Clusters of 3, 6 and 12 processes, each process with the same small share of a core, and
twice as many chains as processes. Strong puts and gets go to the members of a domain's chain, as
many connections for each process. Folders lie in memory: all processes have one disk here."""

import contextlib
import os
import pathlib
import re
import socket
import tempfile
import time

import server as servers
from benchmarks import cluster as clusters
from processes import Processes

IDLE_NODES = 5
IDLE_CHAINS = 20
IDLE_SECONDS = 20
IDLE_SECONDS_SMALL = 2
IDLE_SHARE = 0.1
WHOLE_NODES = 15
WHOLE_CHAINS = 64
WHOLE_SECONDS_MAX = 600
SHARE = 0.08
LINEAR = 0.9
TURN_SECONDS = 5
TURN_SECONDS_SMALL = 1
ITEMS = 200
CONNECTIONS_EACH = 8
COPIES = 3
OPERATIONS = "put", "get"
TICKS = os.sysconf("SC_CLK_TCK")
# Not the machine's disk, which would be shared by all.
IN_MEMORY = pathlib.Path("/dev/shm")


class Scaled(Processes):
    """Processes of one build, with members of many chains."""

    def __init__(self, folder, size, chains, lease="5s", **settings):
        names = tuple(f"n{number}" for number in range(1, size + 1))
        flags = ("--chains", str(chains), "--copies", str(COPIES))
        super().__init__(folder, names, lease=lease, flags=flags, **settings)

    def await_members(self, count, without=None):
        """Waits until each chain has a head and so many members that serve, without this node."""

        def is_so(places):
            roles = list(places.values())
            is_gone = places.get(without, "out") == "out"
            return is_gone and roles.count("head") == 1 and count - 1 <= roles.count("serving")

        self.await_chains(is_so, WHOLE_SECONDS_MAX)

    def members_of(self, domain):
        """The members of its chain that serve, the head first."""
        found = re.search(r"chain (\d+)", self.why(domain, member=self.members[self.names[0]]))
        places = self.chains()[f"chain {found[1]}"]
        return sorted(places, key=lambda name: places[name] != "head")


@contextlib.contextmanager
def running(scratch, *shape, **settings):
    with tempfile.TemporaryDirectory(prefix="fader-scale-", dir=scratch) as folder:
        with Scaled(pathlib.Path(folder), *shape, **settings) as cluster:
            yield cluster


def processor_seconds(process):
    """Processor time of a process so far."""
    text = pathlib.Path(f"/proc/{process.pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def requests_of(zookeeper):
    """Packets that its clients sent so far."""
    with socket.create_connection((zookeeper.address, zookeeper.port), timeout=10) as stream:
        stream.sendall(b"srvr")
        told = stream.makefile().read()
    return int(re.search(r"Received: (\d+)", told)[1])


def idle(cluster, seconds):
    """Processor time of a member, as a share of a core, and requests a second to ZooKeeper."""
    processes = [member.process for member in cluster.members.values()]
    before = sum(map(processor_seconds, processes)), requests_of(cluster.zookeeper)
    time.sleep(seconds)
    after = sum(map(processor_seconds, processes)), requests_of(cluster.zookeeper)
    members = len(processes) + COPIES * len(cluster.chains())
    return (after[0] - before[0]) / seconds / members, (after[1] - before[1]) / seconds


def measure_idle(options, report):
    seconds = IDLE_SECONDS_SMALL if options.small else IDLE_SECONDS
    builds = {"this build": servers.BINARY}
    if options.before:
        builds["before"] = options.before
    shares = {build: [] for build in builds}
    requests = {build: [] for build in builds}
    with contextlib.ExitStack() as stack:
        size, chains = (3, 2) if options.small else (IDLE_NODES, IDLE_CHAINS)
        started = {
            build: stack.enter_context(running(options.scratch, size, chains, binary=binary))
            for build, binary in builds.items()
        }
        for cluster in started.values():
            cluster.await_members(COPIES)
        for _ in range(options.runs):
            for build, cluster in started.items():
                share, rate = idle(cluster, seconds)
                shares[build].append(share * 1000)
                requests[build].append(rate)
    for build in builds:
        report.series(f"idle, {build}: of a core, a member", shares[build], "‰")
        report.series(f"idle, {build}: to ZooKeeper", requests[build], "/s")
    if options.before:
        report.at_most(
            "idle: this build / before",
            [one / other for one, other in zip(shares["this build"], shares["before"])],
            IDLE_SHARE,
            "x",
        )


def measure_whole(options, report):
    size, chains = (4, 4) if options.small else (WHOLE_NODES, WHOLE_CHAINS)
    shape = f"{size} nodes, {chains} chains"
    begun = time.monotonic()
    with running(options.scratch, size, chains) as cluster:
        cluster.await_members(COPIES)
        report.series(f"{shape}: whole from the start", [time.monotonic() - begun], "s")
        lost = cluster.names[-1]
        cluster.kill(lost)
        begun = time.monotonic()
        cluster.await_members(COPIES - 1, without=lost)
        report.series(f"{shape}: without a killed one", [time.monotonic() - begun], "s")
        begun = time.monotonic()
        cluster.start(lost)
        cluster.await_members(COPIES)
        report.series(f"{shape}: whole after its return", [time.monotonic() - begun], "s")


class Domains:
    """A domain for each process, and load of one kind on all of them at once: gets are checked
    against what was put first."""

    def __init__(self, cluster, operation):
        self.operation = operation
        self.names = [f"{operation}-{number}" for number in range(len(cluster.names))]
        for name in self.names:
            create = {"Action": "CreateDomain", "DomainName": name}
            asked = clusters.caller(cluster, cluster.names[0])
            clusters.patiently(lambda: asked.ask(create, {}))
        self.addresses = {
            name: [clusters.address(cluster, member) for member in cluster.members_of(name)]
            for name in self.names
        }
        for name, addresses in self.addresses.items():
            clusters.drive("fill", addresses[:1], domain=name, items=ITEMS, connections=1)

    def rate(self, seconds):
        """Operations a second of all domains together."""
        # The head decides each put; gets are spread over the members.
        runs = [
            clusters.start(
                self.operation,
                addresses[:1] if self.operation == "put" else addresses,
                domain=name,
                items=ITEMS,
                connections=CONNECTIONS_EACH,
                seconds=seconds,
                tolerant=True,
            )
            for name, addresses in self.addresses.items()
        ]
        return sum(clusters.told(run)["rate"] for run in runs)


def measure_nodes(options, report):
    reason = clusters.can_cap()
    if reason:
        print(f"scale --nodes: skipped: {reason}")
        return
    sizes = [3, 4] if options.small else options.nodes
    print(f"scale: each process has {SHARE:.0%} of a core", flush=True)
    rates = {(operation, size): [] for operation in OPERATIONS for size in sizes}
    scratch = IN_MEMORY if IN_MEMORY.is_dir() else options.scratch
    with contextlib.ExitStack() as stack:
        cap = stack.enter_context(clusters.capped(SHARE))
        load = {}
        for size in sizes:
            # Processes with so little of a core are slow to speak: none is to be given up.
            shape = size, 2 * size
            cluster = stack.enter_context(running(scratch, *shape, lease="30s"))
            cluster.await_members(COPIES)
            load.update({(it, size): Domains(cluster, it) for it in OPERATIONS})
            for name, member in cluster.members.items():
                cap(f"{size}-{name}", member.process.pid)
        seconds = TURN_SECONDS_SMALL if options.small else TURN_SECONDS
        # The first turn pays what members still owe from their start.
        for turn in range(options.runs + 1):
            for size in sizes:
                for operation in OPERATIONS:
                    rate = load[operation, size].rate(seconds)
                    if turn > 0:
                        rates[operation, size].append(rate)
    for (operation, size), found in rates.items():
        report.series(f"{size} nodes: strong {operation}s", found, "/s")
    first, *others = sizes
    for operation in OPERATIONS:
        for size in others:
            name = f"{size} nodes / {first}: strong {operation}s"
            least = round(LINEAR * size / first, 2)
            report.ratio(name, rates[operation, size], rates[operation, first], least)


def run(options, report):
    if options.nodes is None or options.small:
        measure_idle(options, report)
        measure_whole(options, report)
    if options.nodes is not None or options.small:
        measure_nodes(options, report)
