"""The attack, inside of its namespaces: cluster, load, faults, and a last look at all items."""

import contextlib
import signal
import sys
import time
import traceback

from nemesis import ensemble
from nemesis.besieged import COPIES, Besieged, Broken
from nemesis.faults import Siege, StepClock, StopClock, copy_logs
from nemesis.load import DOMAINS, Caller, Load, NotSent, Refusal, Unknown
from nemesis.load import all_domains, all_items, items_of, put_in
from nemesis.network import Network
from queues import judge
from queues import load as queues
from objects import load as objects
from objects.__main__ import FLOOR_SECONDS, blocks_left

PATIENCE_SECONDS = 60
# An attack that is as long also waits until the bytes of what was deleted are gone.
LONG_MINUTES = 2


def run(chosen, folder):
    """Exit code: 0 if the cluster always came back; the history still has to be judged."""
    # The first process of its namespace hears of no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = [f"n{number}" for number in range(1, chosen.nodes + 1)]
    network = Network([*names, *ensemble.names_of(chosen.zookeepers)])
    # Odd seeds have the one wiring, even ones the other; of each, every other one several chains.
    # Of objects three of four have: their buckets come and go on several chains.
    wiring = ["star", "chain"][chosen.seed % 2]
    has_several = chosen.seed % 4 if chosen.service == "s3" else chosen.seed // 2 % 2
    chains = 2 if has_several else 0
    print(f"{chosen.nodes} members, {chains} chains beside the system's, {wiring} wiring, "
          f"seed {chosen.seed}, lease {chosen.lease} s, {chosen.zookeepers} of ZooKeeper")
    flags = ("--chains", str(chains), "--copies", str(COPIES))
    kind = Buckets if chosen.service == "s3" else Besieged
    settings = {
        "zookeepers": chosen.zookeepers,
        "wiring": wiring,
        "lease": f"{chosen.lease}s",
        "flags": flags,
    }
    with kind(folder, network, names, **settings) as cluster:
        try:
            attacks = {"simpledb": attack, "sqs": attack_queues, "s3": attack_objects}
            attacks[chosen.service](chosen, folder, cluster)
            problems = [*cluster.panics()]
        except (Broken, RuntimeError, AssertionError, OSError):
            traceback.print_exc()
            problems = ["the attack broke off"]
        finally:
            copy_logs(cluster, folder)
    for ended in cluster.ended:
        print(f"ended by itself, started again: {ended}")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


def attack(chosen, folder, cluster):
    cluster.await_full()
    addresses = {name: cluster.client_address(name) for name in cluster.names}
    create(addresses)
    load = Load(addresses, folder, chosen.seed)
    siege = Siege(cluster, load, chosen.seed, chosen.lease, every=chosen.kill_every)
    with load:
        if not load.await_acknowledged(10, PATIENCE_SECONDS):
            raise Broken("nothing is served before any fault")
        siege.run(time.monotonic() + chosen.minutes * 60)
    if load.errors:
        raise Broken("; ".join(load.errors))
    print(siege.summary())
    print(f"asked what is waited for: {cluster.asked_why} times")
    print("operations: " + ", ".join(
        f"{count} {kind}" for kind, count in sorted(load.counts.items())))
    with contextlib.closing(load.history):
        look_at_all(load, addresses)
        look_at_domains(load, addresses)


def attack_queues(chosen, _folder, cluster):
    """The same with producers and consumers of queues."""
    cluster.await_full()
    addresses = [cluster.client_address(name) for name in cluster.names]
    load = queues.Load([f"http://{host}:{port}" for host, port in addresses], chosen.seed)
    load.create()
    # Clocks say when messages come back: what is judged by visibility needs them as they are.
    siege = Siege(cluster, load, chosen.seed, chosen.lease, every=chosen.kill_every,
                  without=[StepClock, StopClock])
    with load:
        if not load.await_acknowledged(10, PATIENCE_SECONDS):
            raise Broken("nothing is served before any fault")
        siege.run(time.monotonic() + chosen.minutes * 60)
        is_drained = load.drain()
    print(siege.summary())
    if not (judge.report(load) and is_drained):
        raise Broken("queues are not what was promised" if is_drained else "queues are not empty")


class Buckets(Besieged):
    """One whose blocks go soon, and whose disks have room until then. Bytes of what was deleted are
    free when the floor has risen twice. It rises once a minute."""

    DISK_BYTES = 1 << 30
    FLAGS = ["--garbage-wait-s", "5", "--upload-lease-s", "20", "--block-reserve-mb", "128"]

    def flags(self, name):
        return [*super().flags(name), *self.FLAGS]


def attack_objects(chosen, _folder, cluster):
    """The same with writers, readers and racers of two buckets, and others that come and go."""
    cluster.await_full()
    addresses = [cluster.client_address(name) for name in cluster.names]
    urls = [f"http://{host}:{port}" for host, port in addresses]
    load = objects.Load(urls, chosen.seed, races=True, sizes=[40, 5_000, 20_000, 300_000],
                        timeout=3, buckets=["siege", "siege-2"], comers=2)
    load.create()
    # What a late clock excuses is not known here.
    siege = Siege(cluster, load, chosen.seed, chosen.lease, every=chosen.kill_every,
                  without=[StopClock])
    with load:
        if not load.await_acknowledged(10, PATIENCE_SECONDS):
            raise Broken("nothing is served before any fault")
        siege.run(time.monotonic() + chosen.minutes * 60)
    print(siege.summary())
    print("calls: " + ", ".join(f"{count} {what}" for what, count in sorted(load.counts.items())))
    complaints = load.check()
    # The floor of a cluster rises once a minute: a short attack does not wait for it.
    if not complaints and LONG_MINUTES <= chosen.minutes:
        load.empty()
        patience = 4 * FLOOR_SECONDS
        left = [blocks_left(member, patience) for member in cluster.members.values()]
        complaints += [f"blocks of nothing are left: {left}"] if any(left) else []
    for complaint in complaints[:10]:
        print(f"violation: {complaint}")
    print(f"{len(complaints)} violations")
    if complaints:
        raise Broken("objects are not what was promised")


def create(addresses):
    """The domains, in which strong and eventual writers meet."""
    for domain in DOMAINS:
        patiently(
            Caller(*addresses["n1"]).ask, {"Action": "CreateDomain", "DomainName": domain},
            {"x-fader-collection-mode": "mixed"},
        )


def patiently(do, *arguments):
    """What it gives when it can."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return do(*arguments)
        except (NotSent, Unknown, Refusal):
            if end < time.monotonic():
                raise
            time.sleep(0.1)


def look_at_all(load, addresses):
    """Every member must show the same, at every level: the last lines of the history."""
    callers = {name: Caller(*address) for name, address in addresses.items()}
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        start = time.monotonic_ns()
        try:
            strong = {name: all_items(caller, "strong") for name, caller in callers.items()}
            moment = time.monotonic_ns()
            eventual = {name: all_items(caller, "eventual") for name, caller in callers.items()}
        except (NotSent, Unknown, Refusal) as error:
            if end < time.monotonic():
                raise Broken(f"the last look: {error!r}") from error
            continue
        shown = [*strong.values(), *eventual.values()]
        if all(one == shown[0] for one in shown):
            break
        if end < time.monotonic():
            raise Broken(f"members do not agree at rest: {differences(shown)}")
        time.sleep(0.2)
    for number, (name, items) in enumerate(strong.items()):
        for item in sorted(load.items):
            found = items.get(item, {"v": [], "e": []})
            load.note(
                client=-1 - number, session=False, node=name, op="read", level="strong",
                item=item, start=start, end=moment, outcome="ok", version=None, last=True, **found,
            )


def look_at_domains(load, addresses):
    """What became of the domains that came and went, and which there are."""
    callers = {name: Caller(*address) for name, address in addresses.items()}
    for domain, told in load.founded.items():
        if told["created"] == "ok" and "deleted" not in told:
            caller = callers[min(callers)]
            told["usable"] = usable(domain, caller)
        load.note(domain=domain, **told)
    for name, caller in callers.items():
        load.note(listed=patiently(all_domains, caller), node=name)


def usable(domain, caller):
    """Whether it takes a write, and has what was written to it before or now."""
    try:
        patiently(caller.ask, put_in(domain), {"x-fader-consistency": "strong"})
    except Refusal as refusal:
        return str(refusal)
    shown = patiently(items_of, domain, caller, "strong")
    return "ok" if shown.get("first", {}).get("v") == [domain] else f"shows {shown}"


def differences(shown):
    """The first items that are not the same everywhere."""
    names = sorted({name for one in shown for name in one})
    differing = [name for name in names if len({str(one.get(name)) for one in shown}) != 1]
    return {name: [one.get(name) for one in shown] for name in differing[:3]}

