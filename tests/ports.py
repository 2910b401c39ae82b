"""Ports for servers that others are told of before they listen, or that listen there again."""

import contextlib
import os
import pathlib
import random
import socket

# From the next one on the system gives ports to processes that ask for any, or connect. There a
# server that is not up for a moment loses its port now and then, and cannot start.
ANY_BEGIN = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
BEGIN = 10_000
TRIES_MAX = 1000
# Processes of tests that run side by side: each draws from ports of its own. xtask numbers those
# that pytest does not.
LANES = 32
LANE = int(os.environ.get("FADER_TEST_LANE")
           or os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % LANES

given = set()


def free_port(address="127.0.0.1"):
    """A port on which no process listens, and that no other process is given."""
    for _ in range(TRIES_MAX):
        port = random.randrange(BEGIN, ANY_BEGIN)
        if port in given or port % LANES != LANE:
            continue
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind((address, port))
            given.add(port)
            return port
    raise RuntimeError(f"no port of {address} from {BEGIN} to {ANY_BEGIN} is free")


def free_address():
    """The same with its address, on loopback."""
    return f"127.0.0.1:{free_port()}"
