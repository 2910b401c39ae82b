"""Judges what producers and consumers of queues were told.

| check | what it shows |
|---|---|
| `lost` | a send that was acknowledged is received |
| `removed` | nothing is received by a call that began after its acknowledged deletion |
| `held` | no two calls receive a message within its visibility |
| `once` | a body has one message: an unknown outcome is at most one, a duplicate none |
| `order` | of a group, a message comes when those before it were deleted, or with them |"""

import collections

from queues.load import FIFO, VISIBILITY_SECONDS

# Clocks of members differ by so much; nothing sets them.
SKEW_SECONDS = 0.5


def check(lines):
    """What is wrong."""
    for queue in sorted({line["queue"] for line in lines}):
        of_queue = sorted((line for line in lines if line["queue"] == queue),
                          key=lambda line: line["start"])
        for complaint in of(queue, of_queue):
            yield f"{queue}: {complaint}"


def of(queue, lines):
    receives = collections.defaultdict(list)
    ids = collections.defaultdict(set)
    for line in lines:
        if line["what"] == "receive":
            for body, id_ in line["messages"]:
                receives[body].append(line)
                ids[body].add(id_)
        elif line["what"] == "send" and line["id"]:
            ids[line["body"]].add(line["id"])
    deletes = collections.defaultdict(list)
    for line in lines:
        if line["what"] == "delete":
            deletes[line["body"]].append(line)
    sent = {line["body"]: line for line in lines if line["what"] == "send"
            and line["outcome"] == "ok"}
    asked = {line["body"] for line in lines if line["what"] == "send"}
    for body in sorted(sent):
        if body not in receives:
            yield f"lost: {body} was acknowledged and never received"
    for body, found in sorted(ids.items()):
        if 1 < len(found):
            yield f"once: {body} is {len(found)} messages"
        if body not in asked:
            yield f"once: {body} was never sent"
    for body, calls in sorted(receives.items()):
        yield from held(body, calls, deletes[body])
        yield from removed(body, calls, deletes[body])
    if queue == FIFO:
        yield from order(receives, deletes)


def held(body, calls, _deletes):
    for one, other in zip(calls, calls[1:]):
        # In either order of decisions, the other was within its visibility.
        apart = max(one["end"], other["end"]) - min(one["start"], other["start"])
        if apart + SKEW_SECONDS < VISIBILITY_SECONDS:
            yield f"held: {body} is received twice within {apart:.2f} s"


def removed(body, calls, deletes):
    for delete in deletes:
        # Later than this, another receive, of which no client heard, may have the newest handle.
        is_in_time = delete["end"] + SKEW_SECONDS < delete["received"] + VISIBILITY_SECONDS
        if delete["outcome"] != "ok" or not is_in_time:
            continue
        for call in calls:
            if delete["end"] < call["start"]:
                yield f"removed: {body} is received after its deletion"


def order(receives, deletes):
    groups = collections.defaultdict(list)
    for body in receives:
        group, serial = body.split(".")
        groups[group].append(int(serial))
    for group, serials in sorted(groups.items()):
        serials.sort()
        for one, other in zip(serials, serials[1:]):
            first, second = f"{group}.{one}", f"{group}.{other}"
            for call in receives[second]:
                is_with_it = any(call is it for it in receives[first])
                is_gone = any(delete["start"] <= call["end"] for delete in deletes[first])
                if not is_with_it and not is_gone:
                    yield f"order: {second} is received before {first} was deleted"


def report(load):
    """Says what was done, and what is wrong; whether nothing is."""
    print("calls: " + ", ".join(f"{count} {what}" for what, count in sorted(load.counts.items())))
    complaints = [*load.errors, *check(load.lines)]
    for complaint in complaints[:10]:
        print(f"violation: {complaint}")
    print(f"{len(complaints)} violations")
    return not complaints
