"""Judges a history: by Porcupine, and by checks of what is promised beyond linearizability.

| check | what it shows |
|---|---|
| Porcupine | G1: strong operations on an item have one order, in real time |
| `registers` | the same of `v` alone, by `fader measure check` |
| `lost` | I16: an acknowledged eventual write is there in the end: see `may_be_wiped` |
| `barriers` | G8: a barrier read shows eventual writes acknowledged before: see `may_be_away` |
| `invented` | what is shown was asked for, before, and not refused |
| `domains` | a domain is there once its creation was acknowledged, and gone once its deletion was |
| `sessions` | a session reads what it wrote, and never goes back |"""

import collections
import itertools
import shutil
import subprocess
import sys

import server as servers
from nemesis import history

JUDGE = servers.ROOT / "target" / "porcupine"
SOURCES = servers.ROOT / "tests" / "porcupine"
# How long after its acknowledgement a write may still be what one member alone holds, if no member
# has a fault.
SETTLING_NS = 5_000_000_000
# Of an attack that lasts so long, so great a part at most may excuse what is lost.
ATTACK_NS_MIN, EXCUSED_SHARE_MAX = 20_000_000_000, 0.25


def build():
    """Porcupine, with our reader of histories."""
    if shutil.which("go") is None:
        sys.exit("go is missing, with which Porcupine is built: apt-get install golang")
    subprocess.run(["go", "build", "-o", JUDGE, "."], cwd=SOURCES, check=True)


def run(folder):
    """Judges the history in a folder; 0 if nothing is wrong with it."""
    log, left_out = history.judged(folder)
    print(f"strong reads while a clock was late, not judged: {left_out} lines")
    code = porcupine(log) or registers(log)
    complaints = check(history.read(folder))
    for complaint in complaints[:10]:
        print(f"violation: {complaint}")
    return code or (1 if complaints else 0)


def registers(log):
    """The exit code of our own check of what strong writers replaced, by zones. An addition is none
    of a register."""
    check = ["measure", "check", log, "--of", "registers", "--levels", "strong,barrier"]
    return subprocess.run([servers.BINARY, *check]).returncode


def porcupine(log):
    """The exit code of the judge, which says what it finds."""
    return subprocess.run([JUDGE, log]).returncode


def check(lines):
    """What was promised and is not so, in words."""
    faults = [line for line in lines if "fault" in line]
    forgotten = [line for line in lines if "forgotten" in line]
    calls = [line for line in lines if "op" in line]
    counted = sum(sum(line["forgotten"].values()) for line in forgotten)
    tally = collections.Counter()
    items = collections.defaultdict(list)
    for call in calls:
        items[call["item"]].append(call)
    found = []
    # What is lost is set against the counts of what was forgotten, of all items together.
    found += lost(items, faults, forgotten, tally)
    for its_calls in items.values():
        found += barriers(its_calls, faults, tally)
        found += invented(its_calls)
    found += sessions(calls)
    found += domains(lines)
    claims = sum(1 for call in calls if call["op"] in ["add", "look"] and call["outcome"] == "ok")
    print(f"our checks: {len(items)} items, {claims} eventual operations: "
          f"{len(found) or 'no'} violations")
    print(f"eventual writes: {tally['judged']} judged, {tally['excused']} excused if lost; "
          f"lost with disks: {tally['wiped']}, forgotten lawfully: {tally['forgotten']} "
          f"(counted: {counted})")
    print(f"barrier reads: {tally['pairs judged']} times a write before them judged, "
          f"{tally['pairs excused']} excused")
    return found + too_lenient(calls, faults)


def too_lenient(calls, faults):
    """A judge that excuses much sees nothing. One fault in fifteen is a wiped disk, which excuses
    the few seconds before it, and of those the writes with W = 1. Time is counted, not writes: in
    those seconds the cluster is whole, and takes several times what it does under a fault."""
    begun = min((call["start"] for call in calls), default=0)
    lasted = max((call["end"] for call in calls), default=0) - begun
    excused, before = 0, begun
    for at in sorted(at for fault in faults for at in fault["wiped"].values()):
        excused += min(at - before, SETTLING_NS)
        before = at
    if ATTACK_NS_MIN <= lasted and EXCUSED_SHARE_MAX * lasted < excused:
        return [f"of {lasted / 1e9:.0f} s, {excused / 1e9:.0f} excuse that writes are lost"]
    return []


def number_of(call):
    """The version that was told, as a pair that can be compared. What a read takes from the log
    has none to tell."""
    return tuple(int(part) for part in (call["version"] or "").split(".") if part)


def quorum(call):
    """The W of an eventual write; one, if it is taken with any other members reachable."""
    return int(call["level"].rpartition("w=")[2]) if "w=" in call["level"] else 1


def is_acknowledged(call):
    return call["op"] == "add" and call["outcome"] == "ok"


def wiped_around(add, faults):
    """The disks that were lost while they may have been among the few that held the write."""
    return {
        name for fault in faults for name, at in fault["wiped"].items()
        if add["start"] <= at <= add["end"] + SETTLING_NS
    }


def may_be_wiped(add, faults):
    """Whether W of its holders may have lost their disks before it was settled. Nothing but this,
    and what GC-5 forgets, excuses a loss. A member that is killed, stopped, partitioned, full or
    has a wrong clock keeps what is on its disk, and hands it off."""
    return quorum(add) <= len(wiped_around(add, faults))


def lost(items, faults, forgotten, tally):
    """Acknowledged, and not in the last look at the item. A holder that was absent while the safe
    point rose may forget what was not settled before it went (GC-5, JN-7), and counts it. So many
    losses of that time are lawful, if W members counted."""
    last = collections.defaultdict(list)
    for item, calls in items.items():
        last[item] = [call for call in calls if call.get("last")]
    missing = []
    for add in filter(is_acknowledged, itertools.chain(*items.values())):
        tally["excused"] += may_be_wiped(add, faults)
        tally["judged"] += not may_be_wiped(add, faults)
        looks = last[add["item"]]
        lacks = [look["node"] for look in looks if add["value"] not in look["e"]]
        if not lacks:
            continue
        if len(lacks) == len(looks) and may_be_wiped(add, faults):
            tally["wiped"] += 1
        else:
            missing.append((add, lacks[0]))
    for add, node in missing:
        if any(is_forgotten(add, line) for line in forgotten):
            tally["forgotten"] += 1
        else:
            yield f"I16: {add} is lost at {node}"


def is_forgotten(add, line):
    """Whether W members may have dropped it, of what they counted then; if so the counts are less
    by it."""
    may_be = line["since"] <= add["end"] + SETTLING_NS and add["start"] <= line["at"]
    counts = line["forgotten"]
    holders = sorted(counts, key=counts.get, reverse=True)[:quorum(add)]
    if not may_be or len(holders) < quorum(add) or counts[holders[-1]] == 0:
        return False
    for name in holders:
        counts[name] -= 1
    return True


def may_be_away(add, read, faults):
    """Whether W members may have been out of the chain, or not yet back with what they hold, when a
    barrier was asked for. A barrier speaks for the write path only (G8)."""
    return quorum(add) <= sum(
        fault["away"] for fault in faults
        if fault["start"] <= read["end"] and read["start"] <= fault["whole"]
    )


def barriers(calls, faults, tally):
    """Barrier reads that lack what was acknowledged before they began, and is not permanently lost:
    `lost` judges that. Nothing is promised for what was accepted without a lease."""
    last = [call for call in calls if call.get("last")]
    adds = [
        call for call in calls
        if is_acknowledged(call) and all(call["value"] in look["e"] for look in last)
    ]
    for read in calls:
        if read["op"] != "read" or read["level"] != "barrier" or read["outcome"] != "ok":
            continue
        for add in adds:
            if read["start"] <= add["end"] or add.get("detached"):
                continue
            if may_be_away(add, read, faults):
                tally["pairs excused"] += 1
                continue
            tally["pairs judged"] += 1
            if add["value"] not in read["e"]:
                yield f"G8: {read} does not show {add}"


def invented(calls):
    """Values that no client had asked for when they were shown, or that were refused."""
    asked = {
        ("e" if call["op"] == "add" else "v", call["value"]): call
        for call in calls if call["op"] in ["add", "write", "swap"]
    }
    for call in calls:
        if call["op"] not in ["read", "look"] or call["outcome"] != "ok":
            continue
        for name in ["v", "e"]:
            for value in call[name]:
                source = asked.get((name, value))
                if source is None or call["end"] < source["start"]:
                    yield f"invented: {call} shows {value}, for which no client had asked"
                elif source["op"] == "add" and source["outcome"] == "refused":
                    yield f"refused, and shown: {source} in {call}"


def domains(lines):
    """Domains that were created and are not there, or deleted and are. Nothing is said of one of
    which a creation or a deletion is unknown: it may yet happen."""
    founded = [line for line in lines if line.get("created") == "ok"]
    print(f"domains that came and went: {len(founded)}")
    listings = [line for line in lines if "listed" in line]
    for line in founded:
        lists = [listing["node"] for listing in listings if line["domain"] in listing["listed"]]
        if "deleted" not in line:
            if len(lists) != len(listings) or line["usable"] != "ok":
                yield f"created, and not there: {line}, listed at {lists}"
        elif line["deleted"] == "ok" and lists:
            yield f"deleted, and there: {line}, listed at {lists}"


def sessions(calls):
    """Sessions that were shown less than before."""
    clients = collections.defaultdict(list)
    for call in calls:
        if call["session"]:
            clients[call["client"]].append(call)
    for its_calls in clients.values():
        its_calls.sort(key=lambda call: call["start"])
        yield from one_session(its_calls)


def one_session(calls):
    known = collections.defaultdict(set)
    version = {}
    for call in calls:
        item = call["item"]
        if call["outcome"] == "lost":
            # It was told, and starts anew.
            known[item].clear()
        if call["outcome"] != "ok":
            continue
        if call["op"] in ["read", "look"]:
            missing = known[item] - set(call["e"])
            if missing:
                yield f"session: {call} does not show {sorted(missing)}, which it has shown before"
            known[item] = set(call["e"])
        number = number_of(call)
        if call["op"] in ["read", "look"] and number:
            if number < version.get(item, number):
                yield f"session: {call} is older than {version[item]}, which it has shown before"
            version[item] = number
        if call["op"] == "add":
            known[item].add(call["value"])
