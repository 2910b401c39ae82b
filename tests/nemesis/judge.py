"""Judges a history: by Porcupine, and by checks of what is promised beyond linearizability.

| check | what it shows |
|---|---|
| Porcupine | G1: strong operations on an item have one order, in real time |
| `lost` | I16: an acknowledged eventual write is there in the end, unless its holders were harmed |
| `barriers` | G8: a barrier read shows eventual writes acknowledged before |
| `sessions` | a session reads what it wrote, and never goes back |"""

import collections
import json
import shutil
import subprocess
import sys

import server as servers

JUDGE = servers.ROOT / "target" / "porcupine"
SOURCES = servers.ROOT / "tests" / "porcupine"
# How long after its acknowledgement a write may still be what one member alone holds, if nothing
# is done to anybody.
SETTLING_NS = 5_000_000_000


def build():
    """Porcupine, with our reader of histories."""
    if shutil.which("go") is None:
        sys.exit("go is missing, with which Porcupine is built: apt-get install golang")
    subprocess.run(["go", "build", "-o", JUDGE, "."], cwd=SOURCES, check=True)


def run(folder):
    """Judges the history in a folder; 0 if nothing is wrong with it."""
    history = folder / "history.jsonl"
    code = porcupine(history)
    with open(history) as lines:
        complaints = check([json.loads(line) for line in lines])
    for complaint in complaints[:10]:
        print(f"violation: {complaint}")
    return code or (1 if complaints else 0)


def porcupine(history):
    """The exit code of the judge, which says what it finds."""
    return subprocess.run([JUDGE, history]).returncode


def check(lines):
    """What was promised and is not so, in words."""
    faults = [line for line in lines if "fault" in line]
    calls = [line for line in lines if "op" in line]
    items = collections.defaultdict(list)
    for call in calls:
        items[call["item"]].append(call)
    found = []
    for its_calls in items.values():
        found += lost(its_calls, faults)
        found += barriers(its_calls, faults)
    found += sessions(calls)
    claims = sum(1 for call in calls if call["op"] in ["add", "look"] and call["outcome"] == "ok")
    print(f"our checks: {len(items)} items, {claims} eventual operations: "
          f"{len(found) or 'no'} violations")
    return found


def number_of(call):
    """The version that was told, as a pair that can be compared. What a read takes from the log
    has none to tell."""
    return tuple(int(part) for part in (call["version"] or "").split(".") if part)


def quorum(call):
    """The W of an eventual write."""
    return int(call["level"].rsplit("w=", 1)[1])


def may_be_lost(add, faults):
    """Whether W of those that held it may have been harmed before it was settled."""
    harmed = set()
    for fault in faults:
        if fault["start"] <= add["end"] + SETTLING_NS and add["start"] <= fault["whole"]:
            harmed.update(fault["members"])
    return quorum(add) <= len(harmed)


def lost(calls, faults):
    """Acknowledged, and not in the last look at the item."""
    last = [call for call in calls if call.get("last")]
    for add in calls:
        if add["op"] != "add" or add["outcome"] != "ok" or may_be_lost(add, faults):
            continue
        for look in last:
            if add["value"] not in look["e"]:
                yield f"I16: {add} is lost at {look['node']}"
                break


def barriers(calls, faults):
    """Barrier reads that lack what was acknowledged before they began."""
    adds = [call for call in calls if call["op"] == "add" and call["outcome"] == "ok"]
    for read in calls:
        if read["op"] != "read" or read["level"] != "barrier" or read["outcome"] != "ok":
            continue
        for add in adds:
            is_before = add["end"] < read["start"]
            if is_before and add["value"] not in read["e"] and not may_be_lost(add, faults):
                yield f"G8: {read} does not show {add}"


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
