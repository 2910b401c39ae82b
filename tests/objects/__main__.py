"""`python -m objects --rounds N --seed S`: kills a server (kill -9) under writers and readers of a
bucket, starts it again, and judges what is there. Every acknowledged object is whole, no half
object is visible, and the bytes of what was deleted go. With `--members 3` the servers are members
of a cluster, of which one after the other is killed, or stopped and continued."""

import argparse
import pathlib
import random
import sys
import tempfile
import time
import urllib.request

import server as servers
from objects.load import PATIENCE_SECONDS, Load
from ports import free_address, free_port
from processes import Member, Processes

# Blocks go soon: fences race commits, and garbage does not wait.
FLAGS = ["--garbage-wait-s", "1", "--upload-lease-s", "3", "--block-reserve-mb", "0"]
# The floor of a cluster rises once a minute: then what was removed goes.
FLOOR_SECONDS = 60
# How many of the members that are hurt are stopped for a while, and go on.
STOPS = 0.4


class One:
    """A lone server."""

    def __init__(self, folder, _members):
        self.folder = folder
        self.listen = f"127.0.0.1:{free_port()}"
        self.server = self.start()

    def start(self):
        return servers.Server(self.folder, *FLAGS, listen=self.listen)

    @property
    def servers(self):
        return [self.server]

    def kill(self, _chance):
        self.server.kill()
        self.server.process.stdout.close()

    def restart(self):
        self.server = self.start()

    def close(self):
        self.server.kill()


class Several(Processes):
    """Members of a cluster, each at an address of its own."""

    def __init__(self, folder, members):
        names = [f"n{number + 1}" for number in range(members)]
        self.listens = {name: free_address() for name in names}
        self.killed, self.is_stopped = None, False
        super().__init__(folder, names=names)

    def new_member(self, name, wait=True):
        return Member(self, name, wait=wait, listen=self.listens[name])

    def flags(self, name):
        return [*super().flags(name), *FLAGS]

    @property
    def servers(self):
        return list(self.members.values())

    def kill(self, chance):
        self.killed = chance.choice(list(self.names))
        self.is_stopped = chance.random() < STOPS
        member = self.members[self.killed]
        if self.is_stopped:
            member.stop_for_now()
            return
        member.kill()
        member.process.stdout.close()

    def restart(self):
        if self.is_stopped:
            self.members[self.killed].go_on()
        else:
            self.members[self.killed] = self.new_member(self.killed)
        is_whole = ["head", *["serving"] * (len(self.names) - 1)]
        self.await_roles(lambda roles: sorted(roles.values()) == is_whole)

    def close(self):
        self.__exit__()


def main():
    parser = argparse.ArgumentParser(prog="objects", description=__doc__.split(":")[0])
    parser.add_argument("--rounds", type=int, default=100, help="how often one is killed")
    parser.add_argument("--seed", type=int, default=1, help="where the moments come from")
    parser.add_argument("--members", type=int, default=1, help="how many servers there are")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="objects-") as folder:
        return crash(chosen, pathlib.Path(folder))


def crash(chosen, folder):
    chance = random.Random(chosen.seed)
    world = (One if chosen.members == 1 else Several)(folder, chosen.members)
    try:
        load = Load([server.url for server in world.servers], chosen.seed)
        load.create()
        for number in range(1, chosen.rounds + 1):
            with load:
                is_served = load.await_acknowledged(5)
                time.sleep(chance.uniform(0, 1) if is_served else 0)
                world.kill(chance)
                if chosen.members != 1:
                    is_served &= load.await_acknowledged(5)
                    world.restart()
            if chosen.members == 1:
                world.restart()
            complaints = load.check()
            if not is_served:
                complaints.append(f"nothing is served around kill {number}")
            for complaint in complaints:
                print(f"violation: {complaint}")
            if complaints:
                return 1
            if number % 10 == 0 or number == chosen.rounds:
                print(f"{number} kills, {dict(load.counts)}", flush=True)
        load.empty()
        patience = PATIENCE_SECONDS + (0 if chosen.members == 1 else 3 * FLOOR_SECONDS)
        left = [blocks_left(server, patience) for server in world.servers]
        if any(left):
            print(f"violation: {left} blocks of nothing are left after {patience} s")
        return 1 if any(left) else 0
    finally:
        world.close()


def blocks_left(server, patience):
    """Blocks that are there though all objects are deleted, after a while."""
    end = time.monotonic() + patience
    while True:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        counts = [line for line in lines if line.split("{")[0].split(" ")[0] == "fader_blocks"]
        left = sum(int(line.split()[-1]) for line in counts)
        if left == 0 or end < time.monotonic():
            return left
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
