"""What clients asked and were told, as a log of Fader
(docs/reference/format/history.md), and beside it what was done to the cluster.

An item is two objects of the log. Its attribute `v` is a register of the item's name; what was
added to `e` is a set of that name and `/e`. A read of an item is a read of each, at the same
times."""

import json
import pathlib
import threading
import time

LOG, EVENTS = "history.jsonl", "events.jsonl"
# What is judged of the log: see `judged`.
JUDGED = "judged.jsonl"
SET = "/e"
# Of an eventual write that was accepted without a lease.
DETACHED = "; detached"
# From this number on processes are those that look at the end.
LAST_FIRST = 1_000_000
OUTCOMES = {"ok": "done", "no": "unmet", "refused": "refused", "lost": "refused",
            "unknown": "unknown"}
LOST = "TentativeValueLost"


def header():
    start = time.time_ns() - time.monotonic_ns()
    return {"fader_log": 1, "clock": "monotonic", "start_unix_nanos": start,
            "target": "cluster", "order": "told"}


class History:
    """The files of an attack, written line by line."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.lock = threading.Lock()
        self.log = open(folder / LOG, "w")  # noqa: SIM115
        self.events = open(folder / EVENTS, "w")  # noqa: SIM115
        self._write(self.log, header())

    def note(self, line):
        """A call, or an event."""
        with self.lock:
            if "op" not in line:
                self._write(self.events, line)
                return
            for one in lines_of(line):
                self._write(self.log, one)

    def _write(self, file, line):
        file.write(json.dumps(line) + "\n")

    def close(self):
        """All that was noted is in the files."""
        self.log.close()
        self.events.close()


def lines_of(call):
    """The lines of a call: two, if it showed an item."""
    kind, outcome = call["op"], call["outcome"]
    client = call["client"]
    line = {
        "process": client if 0 <= client else LAST_FIRST - 1 - client,
        "endpoint": call.get("node", ""),
        "level": call["level"] + (DETACHED if call.get("detached") else ""),
        "called": call["start"], "returned": call["end"],
        "action": "read" if kind == "look" else kind,
        "key": call["item"] + (SET if kind == "add" else ""),
        "outcome": OUTCOMES[outcome],
    }
    if call.get("session"):
        line["session"] = client
    if call.get("version"):
        line["place"] = call["version"]
    if "value" in call:
        line["value"] = call["value"]
    if kind == "swap":
        line["from"] = call["expected"]
    if outcome == "lost":
        line["reason"] = LOST
    elif "why" in call:
        line["reason"] = call["why"]
    shown = call.get("v")
    if shown is not None and outcome in ["ok", "no"]:
        line["shown"] = shown[0] if len(shown) == 1 else shown or None
    if kind in ["read", "look"] and outcome == "ok":
        # An empty set is shown as nothing: so is a register, of which it may be the key.
        return [line, line | {"key": call["item"] + SET, "shown": call["e"] or None}]
    return [line]


def call_of(line):
    """The call of a line that is not the second of two."""
    level, action = line["level"], line["action"]
    is_last = LAST_FIRST <= line["process"]
    outcome = next(ours for ours, theirs in OUTCOMES.items() if theirs == line["outcome"])
    if line.get("reason") == LOST:
        outcome = "lost"
    call = {
        "client": LAST_FIRST - 1 - line["process"] if is_last else line["process"],
        "session": "session" in line, "node": line["endpoint"],
        "op": "look" if action == "read" and level.startswith("eventual") else action,
        "level": level.removesuffix(DETACHED), "item": line["key"].removesuffix(SET),
        "start": line["called"], "end": line["returned"], "outcome": outcome,
        "version": line.get("place"),
    }
    call |= {"detached": True} if level.endswith(DETACHED) else {}
    call |= {"last": True} if is_last else {}
    call |= {name: line[key] for name, key in [("value", "value"), ("expected", "from"),
                                               ("why", "reason")] if key in line}
    if "shown" in line:
        shown = line["shown"]
        call["v"] = shown if isinstance(shown, list) else [] if shown is None else [shown]
    return call


def is_late(line, windows):
    """Whether it is a strong read that a member answered soon after its machine had stood still."""
    return line["action"] == "read" and line["level"] == "strong" and any(
        line["endpoint"] == window["late"]
        and line["called"] <= window["end"] and window["start"] <= line["returned"]
        for window in windows
    )


def judged(folder):
    """A log without strong reads that may be late, and how many of the lines those were."""
    folder = pathlib.Path(folder)
    with open(folder / EVENTS) as lines:
        windows = [line for line in map(json.loads, lines) if "late" in line]
    left_out = 0
    with open(folder / LOG) as lines, open(folder / JUDGED, "w") as judged:
        judged.write(next(lines))
        for line in lines:
            if is_late(json.loads(line), windows):
                left_out += 1
            else:
                judged.write(line)
    return folder / JUDGED, left_out


def read(folder):
    """The calls and the events in a folder."""
    folder = pathlib.Path(folder)
    calls = {}
    with open(folder / LOG) as lines:
        next(lines)
        for number, line in enumerate(map(json.loads, lines)):
            item = line["key"].removesuffix(SET)
            if line["action"] == "read" and line["key"].endswith(SET):
                calls[line["process"], line["called"], item]["e"] = line["shown"] or []
            elif line["action"] == "read":
                calls[line["process"], line["called"], item] = call_of(line)
            else:
                calls[number] = call_of(line)
    with open(folder / EVENTS) as lines:
        return [*calls.values(), *map(json.loads, lines)]
