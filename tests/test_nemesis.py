"""Two short attacks, and the judge: each kind of history that was not promised is refused."""

import os
import subprocess
import sys

import pytest

import server as servers
from nemesis import faults, history, judge
from nemesis.__main__ import is_due, why_not

SECONDS = 30


@pytest.fixture(scope="module", autouse=True)
def built():
    judge.build()


@pytest.mark.alone
@pytest.mark.drawn
@pytest.mark.parametrize("number", [0, 1])
def test_half_a_minute_of_faults(number):
    """A chain with seed 1, and a star with chains of data beside the system's with seed 2."""
    reason = why_not()
    if reason and not is_due():
        pytest.skip(reason)
    assert not reason
    attack(number)


@pytest.mark.alone
def test_a_short_attack_on_objects():
    reason = why_not()
    if reason and not is_due():
        pytest.skip(reason)
    assert not reason
    attack(0, "--service", "s3")


def attack(number, *more):
    seed = str(int(os.environ.get("FADER_NEMESIS_SEED", "1")) + number)
    length = ["--minutes", str(SECONDS / 60), "--seed", seed]
    subprocess.run(
        [sys.executable, "-m", "nemesis", *length, *more],
        cwd=servers.ROOT / "tests", check=True, timeout=600,
    )


class History:
    """Calls of one item, one after the other unless said otherwise."""

    def __init__(self):
        self.lines = []
        self.now = 0

    def call(self, op, *, level="strong", client=0, outcome="ok", lasts=10, **more):
        start = self.now
        self.now += lasts + 10
        line = {"client": client, "session": False, "node": "n1", "op": op, "level": level,
                "item": "i", "start": start, "end": start + lasts, "outcome": outcome,
                "version": None}
        self.lines.append(line | more)
        return self

    def write(self, value, **more):
        return self.call("write", value=value, **more)

    def swap(self, expected, value, **more):
        return self.call("swap", expected=expected, value=value, **more)

    def read(self, *values, e=(), **more):
        return self.call("read", v=list(values), e=list(e), **more)

    def add(self, value, w=2, **more):
        return self.call("add", value=value, level=f"eventual; w={w}", **more)

    def look(self, *, e=(), **more):
        return self.call("look", v=[], e=list(e), level="eventual", **more)

    def fault(self, kind, *members, away=1, wiped=False):
        """A fault that has lasted since the beginning; what is wiped, is so now."""
        at = {name: self.now for name in members} if wiped else {}
        self.lines.append({"fault": [kind], "members": members, "start": 0, "whole": self.now,
                           "away": away, "wiped": at})
        return self

    def forgotten(self, **counts):
        """Members that have counted, since the last time or the beginning."""
        last = max([line["at"] for line in self.lines if "forgotten" in line], default=0)
        self.lines.append({"forgotten": counts, "since": last, "at": self.now})
        return self

    def late(self, name, start, end):
        """Its machine went on at `start`, and it knew of the pause at `end`."""
        self.lines.append({"late": name, "start": start, "end": end})
        return self

    def rest(self):
        self.now += judge.SETTLING_NS
        return self

    def is_linearizable(self, folder):
        files = history.History(folder)
        for line in self.lines:
            files.note(line)
        files.close()
        assert history.read(folder) == self.lines
        log, _ = history.judged(folder)
        by_porcupine = {0: True, 1: False}[judge.porcupine(log)]
        by_zones = {0: True, 1: False}[judge.registers(log)]
        # Zones see `v` alone.
        assert by_zones or not by_porcupine
        return by_porcupine

    def complaints(self):
        return judge.check(self.lines)


@pytest.mark.parametrize("history", [
    History().read().write("1").read("1").swap("1", "2").read("2"),
    History().write("1").swap("9", "2", outcome="no", v=["1"]).read("1"),
    # Unknown: it acts once, late, or never.
    History().write("1").write("2", outcome="unknown").read("1").read("2").read("2"),
    History().write("1").write("2", outcome="unknown").read("1").read("1"),
    History().write("1").swap("1", "2", outcome="unknown").write("3").read("3"),
    # At the same time: either order.
    History().write("1", lasts=100).read("1"),
    History().write("1").add("a").read("1").read("1", e=["a"]),
    # A stale read of a member that does not know yet that its clock stood still: called at 40.
    History().write("1").write("2").read("1").late("n1", 50, 60),
    History().write("1").write("2").read("1").late("n1", 30, 40),
])
def test_promised_replies_are_accepted(history, tmp_path):
    assert history.is_linearizable(tmp_path)
    assert history.complaints() == []


@pytest.mark.parametrize("history", [
    # A stale read.
    History().write("1").write("2").read("1"),
    # The same after a pause: of another member, after it was known, before it, and by a barrier.
    History().write("1").write("2").read("1").late("n2", 30, 60),
    History().write("1").write("2").read("1").late("n1", 30, 39),
    History().write("1").write("2").read("1").late("n1", 51, 60),
    History().write("1").write("2").read("1", level="barrier").late("n1", 30, 60),
    # What was shown is gone again.
    History().write("1").write("2", outcome="unknown").read("2").read("1"),
    # Unknown, and done twice.
    History().write("1").write("2", outcome="unknown").read("2").write("3").read("2"),
    # An acknowledged write is lost.
    History().write("1").read(),
    # Two swaps from one value.
    History().write("1").swap("1", "2").swap("1", "3"),
    History().write("1").swap("1", "2", outcome="no", v=["1"]),
    # An eventual value shown to strong reads, and taken back.
    History().add("a").read(e=["a"]).read(),
    # No client wrote it; no client had written it yet; refused.
    History().read("1"),
    History().read("1").write("1"),
    History().write("1", outcome="refused").read("1"),
    # Two values where each write replaces all.
    History().write("1").write("2").read("1", "2"),
])
def test_a_history_that_is_not_linearizable_is_refused(history, tmp_path):
    assert not history.is_linearizable(tmp_path)


def test_lost_eventual_writes_are_found():
    assert History().add("a").read(e=["a"], last=True).complaints() == []
    assert "is lost" in History().add("a").read(last=True).complaints()[0]
    assert "is lost" in History().add("a", w=1).read(last=True).complaints()[0]


@pytest.mark.parametrize("kind", [kind.__name__ for kind in faults.ALL])
def test_only_lost_disks_excuse_a_loss(kind):
    """Nothing that is done to all members around a write excuses that it is lost."""
    away = {"away": 3}
    for w in [1, 2]:
        kept = History().add("a", w=w).fault(kind, "n1", "n2", "n3", **away)
        assert "is lost" in kept.read(last=True).complaints()[0]
    # The disk of its only holder; of one of two; of both.
    wiped = {"wiped": True}
    assert History().add("a", w=1).fault(kind, "n1", **wiped).read(last=True).complaints() == []
    one = History().add("a").fault(kind, "n1", **wiped)
    assert "is lost" in one.read(last=True).complaints()[0]
    both = History().add("a").fault(kind, "n1", "n2", **wiped)
    assert both.read(last=True).complaints() == []
    # Lost long after it was acknowledged, and settled.
    late = History().add("a", w=1).rest().fault(kind, "n1", **wiped)
    assert "is lost" in late.read(last=True).complaints()[0]
    # Lost, says one member of two.
    odd = History().add("a", w=1).fault(kind, "n1", **wiped)
    odd = odd.read(last=True).read(e=["a"], last=True)
    assert "is lost" in odd.complaints()[0]


def test_forgotten_writes_are_counted_against_lost_ones():
    assert History().add("a", w=1).forgotten(n1=1).read(last=True).complaints() == []
    # One of its two holders; twice the same one; one count for two writes.
    for counts in [{"n1": 1}, {"n1": 2}]:
        one = History().add("a").forgotten(**counts).read(last=True)
        assert "is lost" in one.complaints()[0]
    both = History().add("a").forgotten(n1=1, n2=1).read(last=True)
    assert both.complaints() == []
    two = History().add("a", w=1).add("b", w=1).forgotten(n1=1).read(last=True)
    assert len(two.complaints()) == 1
    # Counted before it was asked for; counted when it had been settled for long.
    before = History().forgotten(n1=1).rest().add("a", w=1).read(last=True)
    assert "is lost" in before.complaints()[0]
    after = History().add("a", w=1).rest().forgotten().forgotten(n1=1).read(last=True)
    assert "is lost" in after.complaints()[0]


def attacked(seconds):
    """So long, with nearly all writes at the end, when the disk of their holder is lost."""
    history = History().add("early", w=1)
    history.now = seconds * 1_000_000_000
    for number in range(100):
        history.add(str(number), w=1)
    shown = ["early", *map(str, range(100))]
    return history.read(e=shown, last=True).fault("WipeDisk", "n1", wiped=True)


def test_a_judge_that_excuses_a_long_time_says_so():
    """However many are acknowledged in it: a whole cluster serves far more than one attacked."""
    assert attacked(30).complaints() == []
    # Another disk at the same time, or some time before.
    twice = attacked(30).fault("WipeDisk", "n2", wiped=True)
    assert twice.complaints() == []
    twice.lines[-1]["wiped"] = {"n2": 12_000_000_000}
    assert "of 30 s, 10 excuse" in twice.complaints()[0]


def test_invented_values_are_found():
    assert "no client had asked" in History().look(e=["a"]).complaints()[0]
    assert "no client had asked" in History().look(e=["a"]).add("a").complaints()[0]
    assert "no client had asked" in History().write("a").look(e=["a"]).complaints()[0]
    refused = History().add("a", outcome="refused").look(e=["a"])
    assert "refused, and shown" in refused.complaints()[0]
    assert History().add("a", outcome="unknown").look(e=["a"]).complaints() == []


def test_barriers_that_miss_something_are_found():
    read = {"level": "barrier"}
    assert History().add("a").read(e=["a"], **read).complaints() == []
    assert "does not show" in History().add("a").read(**read).complaints()[0]
    assert History().add("a", outcome="unknown").read(**read).complaints() == []
    # Its holders are away; one of two is; none is, with any clocks.
    missed = read | {"lasts": 0}
    both = History().add("a").read(**missed).fault("Kill", "n1", "n2", away=2)
    assert both.read(e=["a"], last=True).complaints() == []
    for kind, w, away in [("Kill", 2, 1), ("StepClock", 1, 0)]:
        one = History().add("a", w=w).read(**missed).fault(kind, "n1", away=away)
        assert "does not show" in one.complaints()[0]
    # They are back.
    back = History().add("a").fault("Kill", "n1", "n2", away=2).rest().read(**missed)
    assert "does not show" in back.complaints()[0]


def test_domains_that_came_and_went_are_judged():
    def complaints(listed, **told):
        lines = [{"domain": "d", "created": "ok", "usable": "ok"} | told,
                 {"listed": ["d"], "node": "n1"}, {"listed": listed, "node": "n2"}]
        return list(judge.domains(lines))

    assert complaints(["d"]) == []
    assert "not there" in complaints([])[0]
    assert "not there" in complaints(["d"], usable="refused")[0]
    assert "deleted, and there" in complaints([], deleted="ok")[0]
    assert complaints([], deleted="unknown") == []
    assert complaints([], created="unknown") == []


def test_sessions_that_go_back_are_found():
    own = {"session": True}
    assert History().add("a", **own).look(e=["a"], **own).look().complaints() == []
    assert "shown before" in History().add("a", **own).look(**own).complaints()[0]
    seen = History().add("a").look(e=["a"], **own)
    assert "shown before" in seen.read(**own).complaints()[0]
    told = History().add("a", **own).look(outcome="lost", **own).look(**own)
    assert told.complaints() == []
    older = History().look(version="2.10", **own).look(version="2.9", **own)
    assert "older" in older.complaints()[0]
