"""`python -m objects --rounds N --seed S`: kills a server (kill -9) under writers and readers of a
bucket, starts it again, and judges what is there: every acknowledged object is whole, no half
object is visible, and the bytes of what was deleted go."""

import argparse
import pathlib
import random
import sys
import tempfile
import time
import urllib.request

import server as servers
from objects.load import PATIENCE_SECONDS, Load
from ports import free_port

# Blocks go soon: fences race commits, and garbage waits for nobody.
FLAGS = ["--garbage-wait-s", "1", "--upload-lease-s", "3", "--block-reserve-mb", "0"]


def main():
    parser = argparse.ArgumentParser(prog="objects", description=__doc__.split(":")[0])
    parser.add_argument("--rounds", type=int, default=100, help="how often it is killed")
    parser.add_argument("--seed", type=int, default=1, help="where the moments come from")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="objects-") as folder:
        return crash(chosen.rounds, chosen.seed, pathlib.Path(folder))


def crash(rounds, seed, folder):
    chance = random.Random(seed)
    listen = f"127.0.0.1:{free_port()}"

    def start():
        return servers.Server(folder, *FLAGS, listen=listen)

    server = start()
    try:
        load = Load(server.url, seed)
        load.create()
        for number in range(1, rounds + 1):
            with load:
                is_served = load.await_acknowledged(5)
                time.sleep(chance.uniform(0, 1) if is_served else 0)
                server.kill()
                server.process.stdout.close()
            server = start()
            complaints = load.check()
            if not is_served:
                complaints.append(f"nothing is served before kill {number}")
            for complaint in complaints:
                print(f"violation: {complaint}")
            if complaints:
                return 1
            if number % 10 == 0 or number == rounds:
                print(f"{number} kills, {dict(load.counts)}", flush=True)
        load.empty()
        left = blocks_left(server)
        if left:
            print(f"violation: {left} blocks of nothing are left after {PATIENCE_SECONDS} s")
        return 1 if left else 0
    finally:
        server.kill()


def blocks_left(server):
    """Blocks that are there though all objects are deleted, after a while."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        [left] = [int(line.split()[1]) for line in lines if line.startswith("fader_blocks ")]
        if left == 0 or end < time.monotonic():
            return left
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
