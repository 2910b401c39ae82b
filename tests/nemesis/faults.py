"""What is done to the cluster, drawn by a seed: each fault begins, lasts, and ends."""

import collections
import contextlib
import itertools
import random
import shutil
import subprocess
import time

import hung
from nemesis.besieged import Broken
from nemesis.judge import SETTLING_NS
from nemesis.load import DOMAINS, Caller, NotSent, Refusal, Unknown

CLOCK_SECONDS_MIN, CLOCK_SECONDS_MAX = 10, 300
# By how much the time in a request may differ from the clock of the member that is asked.
SKEW_SECONDS = 15 * 60
# A clock is looked at once a second.
STEPPED_SECONDS_MAX = 5
ALL_MEMBERS = 99
REST_SECONDS_MAX = 1.5
# The cluster is full: then it must serve, at once but for what is still under way.
SERVING_SECONDS_MAX = 20


class Fault:
    """One fault, done to `members`."""

    # Whether it may overlap another.
    MIXES = True
    # How many members it may put out of their chains at a time.
    AWAY = 1
    # When which disk was lost.
    wiped = None
    # Of which member, and when, strong reads may be late.
    window = None

    def __init__(self, siege):
        self.cluster, self.chance, self.lease = siege.cluster, siege.chance, siege.lease
        self.members = [siege.draw_member()]
        self.lasts = self.chance.uniform(0.3, 2.5) * self.lease

    @property
    def member(self):
        return self.members[0]

    def others(self):
        return [name for name in self.cluster.names if name != self.member]

    def begin(self):
        raise NotImplementedError

    def end(self):
        pass


class Kill(Fault):
    """kill -9, and a start some time later."""

    def begin(self):
        self.cluster.kill(self.member)

    def end(self):
        self.cluster.start(self.member)


class KillAll(Fault):
    """kill -9 of all, at once."""

    MIXES = False
    AWAY = ALL_MEMBERS

    def __init__(self, siege):
        super().__init__(siege)
        self.members = list(self.cluster.names)
        self.chance.shuffle(self.members)

    def begin(self):
        for name in self.members:
            self.cluster.members[name].process.kill()
        for name in self.members:
            self.cluster.kill(name)

    def end(self):
        for name in self.members:
            self.cluster.start(name)


class Stop(Fault):
    """SIGSTOP for longer than the lease, then SIGCONT."""

    def __init__(self, siege):
        super().__init__(siege)
        self.lasts = self.chance.uniform(1.3, 3) * self.lease

    def begin(self):
        self.cluster.members[self.member].stop_for_now()

    def end(self):
        self.cluster.members[self.member].go_on()


class StopClock(Stop):
    """A machine is paused for longer than the lease, and its clocks with it. Then it may show what
    was newest before the pause: until it has heard the others, or its lease is over by its own
    clock."""

    MIXES = False
    # What it says when it has heard that its clock stood still.
    TOLD = "the clock by which leases end stood still"

    def begin(self):
        self.cluster.pause(self.member)

    def end(self):
        member = self.cluster.members[self.member]
        told, start = member.log().count(self.TOLD), time.monotonic()
        self.window = {"late": self.member, "start": time.monotonic_ns()}
        self.cluster.resume(self.member)
        while (
            time.monotonic() < start + self.lease
            and member.log().count(self.TOLD) == told
        ):
            time.sleep(0.01)
        self.window["end"] = time.monotonic_ns()
        self.cluster.set_clock(self.member, 0)


class HangDisk(Fault):
    """The threads that use the disk stand still at one member, or at all as where they share
    storage. That may last for so long that its incarnation is ended. All else in its process goes
    on."""

    def __init__(self, siege):
        super().__init__(siege)
        self.lasts = self.chance.uniform(1.3, 8) * self.lease
        if self.chance.random() < 0.2:
            self.members = list(self.cluster.names)
        self.AWAY = len(self.members)
        self.held = contextlib.ExitStack()

    def begin(self):
        for name in self.members:
            process = self.cluster.members[name].process
            self.held.enter_context(hung.held(process.pid, "chain"))

    def end(self):
        self.held.close()


class Cut(Fault):
    """What is sent on some ways is lost."""

    def ways(self):
        raise NotImplementedError

    def begin(self):
        self.cut = list(self.ways())
        for way in self.cut:
            self.cluster.network.lose(*way)

    def end(self):
        for way in self.cut:
            self.cluster.network.deliver(*way)


class CutPair(Cut):
    """Two members cannot reach each other; both reach ZooKeeper."""

    def ways(self):
        other = self.chance.choice(self.others())
        self.members.append(other)
        return [(self.member, other), (other, self.member)]


class CutOneWay(Cut):
    """One member cannot reach another, which can reach it."""

    def ways(self):
        other = self.chance.choice(self.others())
        self.members.append(other)
        return [(self.member, other)]


class CutZooKeeper(Cut):
    """A member cannot reach ZooKeeper, but all others."""

    def ways(self):
        servers = self.cluster.zookeeper.names
        ways = [(self.member, server) for server in servers]
        back = [(server, self.member) for server in servers]
        return ways + back if self.chance.random() < 0.7 else ways


class CutMembers(Cut):
    """A member cannot reach any other, but ZooKeeper."""

    def ways(self):
        both = [[(self.member, other), (other, self.member)] for other in self.others()]
        return itertools.chain(*both)


class Isolate(Cut):
    """A member reaches no other member; clients reach it."""

    def ways(self):
        others = [*self.others(), *self.cluster.zookeeper.names]
        return itertools.chain(*[[(self.member, one), (one, self.member)] for one in others])


class KillZooKeeper(Fault):
    """ZooKeeper is gone for a while, with all its sessions."""

    AWAY = ALL_MEMBERS

    def __init__(self, siege):
        super().__init__(siege)
        self.members = []

    def begin(self):
        self.cluster.zookeeper.kill()

    def end(self):
        self.cluster.zookeeper.start()


class ServerFault(Fault):
    """Something is done to one server of three: the others go on, after an election at times."""

    MIXES = False
    AWAY = ALL_MEMBERS

    def __init__(self, siege):
        super().__init__(siege)
        self.members = []
        # Long enough for an election, and for leases to end.
        self.lasts = self.chance.uniform(1, 4) * self.lease

    @property
    def servers(self):
        return self.cluster.zookeeper

    def followers(self):
        return [number for number in self.servers.places if number != self.servers.leader()]

    def end(self):
        self.servers.await_answers()


class KillLeader(ServerFault):
    """kill -9 of the server that leads, and a start some time later."""

    def begin(self):
        self.number = self.servers.leader()
        self.servers.kill(self.number)

    def end(self):
        self.servers.start(self.number)
        super().end()


class StopLeader(ServerFault):
    """SIGSTOP of the server that leads, then SIGCONT: it believes that it leads still."""

    def begin(self):
        self.number = self.servers.leader()
        self.servers.stop_for_now(self.number)

    def end(self):
        self.servers.go_on(self.number)
        super().end()


class CutServers(ServerFault, Cut):
    """A server cannot reach the other two; members reach all."""

    def draw_server(self):
        raise NotImplementedError

    def ways(self):
        number = self.draw_server()
        one = self.servers.name(number)
        others = [name for name in self.servers.names if name != one]
        return itertools.chain(*[[(one, other), (other, one)] for other in others])

    def end(self):
        Cut.end(self)
        super().end()


class CutLeader(CutServers):
    """The server that leads is cut off from the others, who elect another one."""

    def draw_server(self):
        return self.servers.leader()


class CutFollower(CutServers):
    """A server that follows is cut off."""

    def draw_server(self):
        return self.chance.choice(self.followers())


class CutMinority(CutServers):
    """A member and one server reach each other, and nothing else."""

    def __init__(self, siege):
        super().__init__(siege)
        self.members = [siege.draw_member()]

    def draw_server(self):
        return self.chance.choice(list(self.servers.places))

    def ways(self):
        number = self.draw_server()
        side = [self.servers.name(number), self.member]
        all_names = [*self.servers.names, *self.cluster.names]
        rest = [name for name in all_names if name not in side]
        return [way for one in side for other in rest for way in [(one, other), (other, one)]]


class RollServers(ServerFault):
    """One server after the other ends and starts again, when all answer."""

    def __init__(self, siege):
        super().__init__(siege)
        self.lasts = 0

    def begin(self):
        for number in self.servers.places:
            self.servers.kill(number)
            self.servers.start(number)
            self.servers.await_answers()


class StepClock(Fault):
    """The clock of one member jumps, and later jumps back; the member is seen to go by it."""

    AWAY = 0

    def begin(self):
        sign = self.chance.choice([-1, 1])
        step = sign * self.chance.randint(CLOCK_SECONDS_MIN, CLOCK_SECONDS_MAX)
        # What it is asked by this clock it hears if its own has stepped, and calls expired if not.
        self.ahead = sign * SKEW_SECONDS + step / 2
        self.cluster.set_clock(self.member, step)
        self._await(True)

    def end(self):
        self.cluster.set_clock(self.member, 0)
        self._await(False)

    def _await(self, is_stepped):
        """Waits until the member goes by the clock that was set, if it answers."""
        caller = Caller(*self.cluster.client_address(self.member), ahead=self.ahead)
        end = time.monotonic() + STEPPED_SECONDS_MAX
        while (told := self._is_stepped(caller)) is not is_stepped:
            if end < time.monotonic():
                if told is None:
                    return
                raise Broken(f"the clock of {self.member} was set, and it did not go by it")
            time.sleep(0.1)

    @staticmethod
    def _is_stepped(caller):
        call = {"Action": "GetAttributes", "DomainName": DOMAINS[0], "ItemName": "clock"}
        try:
            caller.ask(call, {"x-fader-consistency": "eventual"})
        except Refusal as refusal:
            return refusal.code != "RequestExpired"
        except (NotSent, Unknown):
            return None
        return True


class FillDisk(Fault):
    """The disk of one member is full."""

    def begin(self):
        self.cluster.fill(self.member)

    def end(self):
        self.cluster.free(self.member)


class WipeDisk(Fault):
    """A member dies and returns with an empty disk. Only while all others are there, and have been
    for so long that nothing older is what its disk alone holds."""

    MIXES = False

    def begin(self):
        # What an earlier fault did may show late: others may have been found slow since.
        is_full = False
        while not is_full:
            self.cluster.await_full()
            time.sleep(SETTLING_NS / 1e9)
            is_full, _ = self.cluster.is_whole()
        self.cluster.kill(self.member)
        self.wiped = {self.member: time.monotonic_ns()}
        self.cluster.wipe(self.member)

    def end(self):
        self.cluster.start(self.member)


class Roll(Fault):
    """One after the other ends in order and starts again, when all are there."""

    MIXES = False

    def __init__(self, siege):
        super().__init__(siege)
        self.members = list(self.cluster.names)
        self.lasts = 0

    def begin(self):
        for name in self.members:
            member = self.cluster.members[name]
            code = member.stop()
            if code != 0:
                raise Broken(f"{name} ended with code {code} when told to end:\n{member.log()}")
            self.cluster.start(name)
            self.cluster.await_full()


ALL = [
    Kill, Stop, StopClock, HangDisk, CutPair, CutOneWay, CutMembers, CutZooKeeper, Isolate, KillAll,
    KillZooKeeper, StepClock, FillDisk, WipeDisk, Roll,
]
# Where there are three servers of ZooKeeper.
OF_SERVERS = [KillLeader, StopLeader, CutLeader, CutFollower, CutMinority, RollServers]


class Siege:
    """Faults in the order that the seed gives: every kind comes once before any comes again."""

    def __init__(self, cluster, load, seed, lease, every=None, without=()):
        self.cluster, self.load, self.lease = cluster, load, lease
        self.chance = random.Random(seed)
        left_out = [*without, *([] if cluster.library else [StepClock])]
        self.all = [*ALL, *(OF_SERVERS if len(cluster.zookeeper.names) == 3 else [])]
        self.kinds = [kind for kind in self.all if kind not in left_out]
        # Members are killed so often, in seconds, and nothing else is done.
        self.every = every
        if every:
            self.kinds = [Kill]
        self.deck = []
        self.count = 0
        self.counts = collections.Counter()
        # When members were asked last what they have forgotten.
        self.asked_at = time.monotonic_ns()

    def draw_member(self):
        """Any; the head as often as all others."""
        if self.chance.random() < 0.5:
            with contextlib.suppress(AssertionError, StopIteration, subprocess.TimeoutExpired):
                return self.cluster.head()
        return self.chance.choice(self.cluster.names)

    def draw(self):
        """The next fault, and at times one that overlaps it."""
        if not self.deck:
            self.deck = list(self.kinds)
            self.chance.shuffle(self.deck)
        first = self.deck.pop()(self)
        if not first.MIXES or self.every or self.chance.random() < 0.7:
            return [first]
        second = self.chance.choice([kind for kind in self.kinds if kind.MIXES])(self)
        # What is killed cannot be stopped, and one clock or disk is one.
        if set(first.members) & set(second.members) or type(first) is type(second):
            return [first]
        return [first, second]

    def run(self, end):
        """Faults until the time is over; full chains after each."""
        while time.monotonic() < end and not self.load.errors:
            began = time.monotonic()
            self._strike(self.draw())
            rest = self.chance.uniform(0.2, REST_SECONDS_MAX)
            if self.every:
                rest = max(0, began + self.every - time.monotonic())
            time.sleep(rest)

    def summary(self):
        """How often each kind was done, and which were not."""
        came = ", ".join(f"{self.counts[kind.__name__]} {kind.__name__}" for kind in self.all
                         if self.counts[kind.__name__])
        missed = [kind.__name__ for kind in self.kinds if not self.counts[kind.__name__]]
        impossible = [kind.__name__ for kind in self.all if kind not in self.kinds]
        return "; ".join([
            f"{self.count} faults: {came}",
            *([f"not reached: {', '.join(missed)}"] if missed else []),
            *([f"left out: {', '.join(impossible)}"] if impossible else []),
        ])

    def _strike(self, faults):
        self.count += 1
        names = [type(fault).__name__ for fault in faults]
        self.counts.update(names)
        start = time.monotonic_ns()
        for fault in faults:
            fault.begin()
            time.sleep(fault.lasts / len(faults))
        members = sorted({name for fault in faults for name in fault.members})
        print(f"{self.count:4} {'+'.join(names):<28} {','.join(members):<12}", end="", flush=True)
        ended = time.monotonic_ns()
        for fault in faults:
            fault.end()
            if fault.window:
                self.load.note_fault(**fault.window)
        self.cluster.await_full()
        whole = time.monotonic_ns()
        forgotten = self.cluster.newly_forgotten()
        if forgotten:
            self.load.note_fault(forgotten=forgotten, since=self.asked_at, at=whole)
        self.asked_at = whole
        if not self.load.await_acknowledged(3, SERVING_SECONDS_MAX):
            raise Broken(f"full chains, but no strong write in {SERVING_SECONDS_MAX} s")
        print(f" full again after {(whole - ended) / 1e9:5.1f} s", flush=True)
        wiped = {name: at for fault in faults for name, at in (fault.wiped or {}).items()}
        away = max(sum(fault.AWAY for fault in faults), self.cluster.away_max)
        self.load.note_fault(fault=names, members=members, start=start, whole=whole,
                             wiped=wiped, away=min(away, ALL_MEMBERS))


def copy_logs(cluster, folder):
    """What members said, for a search of the cause."""
    for name, member in cluster.members.items():
        shutil.copy(member.errors, folder / f"{name}.log")

