"""`python -m queues --rounds N --seed S`: kills a server (kill -9) under producers and consumers,
starts it again, and judges what they were told."""

import argparse
import pathlib
import random
import sys
import tempfile
import time

import server as servers
from ports import free_port
from queues import judge
from queues.load import PATIENCE_SECONDS, Load


def main():
    parser = argparse.ArgumentParser(prog="queues", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="how often it is killed")
    parser.add_argument("--seed", type=int, default=1, help="where the moments come from")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queues-") as folder:
        return crash(chosen.rounds, chosen.seed, pathlib.Path(folder))


def crash(rounds, seed, folder):
    chance = random.Random(seed)
    listen = f"127.0.0.1:{free_port()}"
    server = servers.Server(folder, listen=listen)
    try:
        load = Load([server.url], seed)
        load.create()
        with load:
            for number in range(1, rounds + 1):
                if not load.await_acknowledged(5, PATIENCE_SECONDS):
                    print(f"violation: nothing is served before kill {number}")
                    return 1
                time.sleep(chance.uniform(0, 1))
                server.kill()
                server.process.stdout.close()
                server = servers.Server(folder, listen=listen)
                if number % 10 == 0 or number == rounds:
                    sends = load.counts["send ok"]
                    print(f"{number} kills, {sends} sends acknowledged", flush=True)
            is_drained = load.drain()
        if not is_drained:
            print(f"violation: the queues are not empty after {PATIENCE_SECONDS} s")
        return 0 if judge.report(load) and is_drained else 1
    finally:
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
