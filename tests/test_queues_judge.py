"""The judge of queues: each kind of history that was not promised is refused."""

import pytest

from queues import judge
from queues.load import FIFO, STANDARD


def send(at, body, id_=1, outcome="ok", queue=STANDARD):
    return {"what": "send", "queue": queue, "outcome": outcome, "start": at, "end": at + 0.1,
            "body": body, "id": id_ if outcome == "ok" else None}


def receive(at, *messages, queue=STANDARD):
    return {"what": "receive", "queue": queue, "outcome": "ok", "start": at, "end": at + 0.1,
            "messages": list(messages)}


def delete(at, body, received, outcome="ok", queue=STANDARD):
    return {"what": "delete", "queue": queue, "outcome": outcome, "start": at, "end": at + 0.1,
            "body": body, "received": received}


def found(*lines):
    return {complaint.split(": ")[1] for complaint in judge.check(lines)}


def test_a_good_history_is_good():
    assert not found(
        send(0, "0.1"), receive(1, ("0.1", 1)), receive(9, ("0.1", 1)), delete(9.2, "0.1", 9),
        send(0, "1.1", queue=FIFO), send(1, "1.2", queue=FIFO),
        receive(2, ("1.1", 1), queue=FIFO), delete(2.2, "1.1", 2, queue=FIFO),
        receive(3, ("1.2", 1), queue=FIFO), delete(3.2, "1.2", 3, "unknown", queue=FIFO),
        receive(8, ("1.2", 1), queue=FIFO),
    )


@pytest.mark.parametrize("what, lines", [
    ("lost", [send(0, "0.1")]),
    ("once", [send(0, "0.1"), receive(1, ("0.1", 1)), receive(9, ("0.1", 2))]),
    ("once", [receive(1, ("0.1", 1))]),
    ("held", [send(0, "0.1"), receive(1, ("0.1", 1)), receive(2, ("0.1", 1))]),
    ("removed", [send(0, "0.1"), receive(1, ("0.1", 1)), delete(1.2, "0.1", 1),
                 receive(9, ("0.1", 1))]),
    ("order", [send(0, "0.1", queue=FIFO), send(0, "0.2", queue=FIFO),
               receive(1, ("0.1", 1), queue=FIFO), receive(2, ("0.2", 2), queue=FIFO)]),
])
def test_a_bad_history_is_told(what, lines):
    assert what in found(*lines)
