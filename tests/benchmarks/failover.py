"""What a member's death costs its clients, and its return.

*Death.* Clients ask for one thing after the other, at any member that is there, at each level. What
is told is the longest time between two answers around the kill. A client that hears nothing asks
another member after a quarter of a second, for reads and for writes alike.

*Return.* A member returns with an empty disk while load goes on. Three throughputs are told, of the
same clients at the same two members. They are of the whole chain before one is killed, and of the
two that are left. The third is from the start of the third member until it serves. What three cost
more than two is no cost of the return; what is lost against the whole chain is, once that has
settled.

*Refusals.* What each phase was refused is told by the reason that refusals name. With `--cpu` each
member has a share of a core and no more, as beside others on a busy machine. Then refusals end
nothing, and figures are told and not judged."""

import collections
import concurrent.futures
import contextlib
import itertools
import shutil
import time

import server as servers
from benchmarks import cluster as clusters
from nemesis import load
from nemesis.load import NotSent, Refusal, Unknown

LEASE_SECONDS = 2
PROMISED_STRONG_SECONDS = LEASE_SECONDS + 1
# "None" for eventual operations: no more than one unanswered request and the next.
PROMISED_EVENTUAL_SECONDS = 0.5
TRY_SECONDS = 0.25
LOSS_MAX = 0.3
RETURN_SECONDS_MAX = 600
WATCH_SECONDS = LEASE_SECONDS + 3
PHASE_SECONDS = 10
PHASE_SECONDS_SMALL = 2
# For some seconds after a return the engine still merges what it was filled with.
SETTLING_SECONDS = 20
KINDS = [
    ("strong", "read"),
    ("strong", "write"),
    ("eventual", "look"),
    ("eventual; r=2", "look"),
    ("eventual; w=1", "add"),
]


def beside(function, *arguments):
    """Calls it in a thread of its own. A thread that asks for the result is told of what failed."""
    thread = concurrent.futures.ThreadPoolExecutor(1)
    result = thread.submit(function, *arguments)
    thread.shutdown(wait=False)
    return result


class Prober:
    """Asks for one thing again and again, and keeps the moments of the answers."""

    def __init__(self, cluster, level, kind):
        self.callers = [clusters.caller(cluster, name) for name in cluster.names]
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

    def longest(self, start):
        """The longest silence that was not over at `start`."""
        self.is_ending = True
        self.asking.result()
        asked = f"{self.level} {self.kind}"
        assert any(moment < start for moment in self.moments), f"no answer to {asked}"
        moments = [start, *[moment for moment in self.moments if start < moment], time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(moments))


def deaths(options, report):
    """Kills each place of the chain in turn."""
    found = {}
    settings = {"wiring": "chain", "lease": f"{LEASE_SECONDS}s"}
    with shares(options) as share, clusters.running(options.scratch, **settings) as cluster:
        share(cluster)
        for _ in range(options.runs):
            for place in ["head", "middle", "tail"][: 1 if options.small else 3]:
                for key, silence in one_death(cluster, place, share):
                    found.setdefault((place, *key), []).append(silence)
    for (place, level, kind), silences in found.items():
        promised = PROMISED_STRONG_SECONDS if level == "strong" else PROMISED_EVENTUAL_SECONDS
        name = f"{place} killed: silence of {level} {kind}s"
        report.at_most(name, silences, promised, "s")


@contextlib.contextmanager
def shares(options):
    """What gives the members of a cluster that have none their shares; all there is without."""
    if options.cpu is None:
        yield lambda _: None
        return
    with clusters.capped(options.cpu) as cap:
        capped = itertools.count(1)
        known = set()

        def share(cluster):
            for name, member in cluster.members.items():
                pid = member.process.pid
                if pid not in known:
                    known.add(pid)
                    cap(f"{name}-{next(capped)}", pid)

        yield share


def one_death(cluster, place, share):
    _, roles = cluster.roles()
    serving = [name for name, role in roles.items() if role == "serving"]
    victim = {"head": cluster.head(), "middle": serving[0], "tail": serving[-1]}[place]
    probers = {key: Prober(cluster, *key) for key in KINDS}
    time.sleep(0.5)
    start = time.monotonic()
    cluster.kill(victim)
    time.sleep(WATCH_SECONDS)
    silences = [(key, prober.longest(start)) for key, prober in probers.items()]
    cluster.start(victim)
    share(cluster)
    cluster.await_whole()
    return silences


def returns(options, report):
    """A member that lacks everything comes back under load."""
    lacks = (16 << 20) if options.small else (1 << 30)
    bytes_each = 1000
    found = []
    refused = collections.Counter()
    lease = f"{LEASE_SECONDS}s"
    with shares(options) as share, clusters.running(options.scratch, lease=lease) as cluster:
        away = cluster.names[-1]
        others = [clusters.address(cluster, name) for name in cluster.names if name != away]
        fill = {"items": lacks // bytes_each, "bytes": bytes_each, "connections": 16}
        clusters.drive("fill", others[:1], **fill)
        clusters.patiently(lambda: clusters.caller(cluster, cluster.names[0]).ask(
            {"Action": "CreateDomain", "DomainName": "other"}, {}))
        share(cluster)
        # Each load's stamps are above those of the loads before, also of the longest.
        stamps = itertools.count(1, 10_000_000)
        for _ in range(options.runs):
            found.append(one_return(cluster, away, (others, stamps, refused), options, share))
    whole, two, during, times = zip(*found, strict=True)
    lost = lambda rates, of: [1 - rate / full for rate, full in zip(rates, of, strict=True)]
    report.counts("puts refused, by reason", refused)
    report.series("puts a second, the whole chain", whole, "/s")
    report.series("two members alone", two, "/s")
    report.series("while the third returns", during, "/s")
    report.series(f"return with {lacks >> 20} MB of values to catch up: time", times, "s")
    report.series("cost of being three, against two", lost(whole, two), "")
    report.series("return: loss against the two alone", lost(during, two), "")
    report.at_most("return: loss against the whole chain", lost(during, whole), LOSS_MAX, "")


def one_return(cluster, away, load, options, share):
    """Puts a second of all members, of those without `away`, and until it serves again with an
    empty disk; and how long that took."""
    others, stamps, refused = load
    put = {"domain": "other", "connections": 16, "bytes": 500}
    if options.cpu is not None:
        put["tolerant"] = True

    def rate(seconds):
        done = clusters.drive("put", others, seconds=seconds, stamp=next(stamps), **put)
        refused.update(done["refused"])
        refused["no answer"] += done["lost"]
        return done["rate"]

    phase = PHASE_SECONDS_SMALL if options.small else PHASE_SECONDS
    if not options.small:
        rate(SETTLING_SECONDS)
    whole = rate(phase)
    cluster.kill(away)
    cluster.await_roles(lambda roles: roles[away] == "out")
    shutil.rmtree(cluster.members[away].data)
    two = rate(phase)
    start = time.monotonic()
    cluster.members[away] = cluster.new_member(away, wait=False)
    share(cluster)
    waiting = beside(cluster.members[away].await_listening, RETURN_SECONDS_MAX)
    rates = []
    while not waiting.done() or not rates:
        rates.append(rate(1))
    waiting.result()
    seconds = time.monotonic() - start
    cluster.await_whole()
    return whole, two, sum(rates) / len(rates), seconds


def run(options, report):
    print(f"failover: {servers.BINARY.name}, lease {LEASE_SECONDS} s, chain of three processes")
    if options.cpu is not None:
        if reason := clusters.can_cap():
            print(f"failover: --cpu is not possible here: {reason}")
            report.missed += 1
            return
        print(f"failover: each member has {options.cpu:.0%} of a core; nothing is judged")
        report.is_small = True
    deaths(options, report)
    returns(options, report)
