"""The ports of the tests' own servers."""

import socket

import pytest

import ports


def test_a_port_belongs_to_one_server():
    given = [ports.free_port() for _ in range(200)]
    assert len(set(given)) == len(given)
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        for other in [listener, client]:
            assert max(given) < other.getsockname()[1], "the system gives it to anybody"


def test_tests_side_by_side_draw_from_different_ports(monkeypatch):
    drawn = []
    for lane in range(ports.LANES):
        monkeypatch.setattr(ports, "LANE", lane)
        drawn.append({ports.free_port() for _ in range(50)})
    assert len(set.union(*drawn)) == 50 * ports.LANES


def test_a_port_that_is_taken_is_not_given(monkeypatch):
    taken = ports.free_port()
    monkeypatch.setattr(ports, "given", set())
    monkeypatch.setattr(ports, "BEGIN", taken)
    monkeypatch.setattr(ports, "ANY_BEGIN", taken + 1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", taken))
        with pytest.raises(RuntimeError, match="no port of 127.0.0.1 .* is free"):
            ports.free_port()
    assert ports.free_port() == taken
