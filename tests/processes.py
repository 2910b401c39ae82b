"""A cluster of processes: ZooKeeper, and members to be started, killed, stopped and continued."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import time

from botocore.exceptions import BotoCoreError, ClientError

import server as servers
from ports import free_address

LAUNCHER = pathlib.Path(__file__).resolve().parent / "zookeeper" / "serve.py"
START_SECONDS_MAX = 120


class ZooKeeper:
    """A server on a port that stays its own."""

    def __init__(self, folder, address="127.0.0.1", before=()):
        self.folder = folder
        self.address = address
        self.before = before
        self.port = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.before, sys.executable, LAUNCHER, self.folder, str(self.port), self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with servers.killed_after(START_SECONDS_MAX, self.process):
            line = self.process.stdout.readline()
        assert line.startswith("listening on "), "no ZooKeeper server: see what it says above"
        self.port = int(line.rsplit(":", 1)[1])

    @property
    def hosts(self):
        return f"{self.address}:{self.port}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Member(servers.Server):
    """A running `fader serve` that is a member of a cluster."""

    def __init__(self, cluster, name, wait=True, **settings):
        folder = cluster.folder / name
        folder.mkdir(exist_ok=True)
        super().__init__(folder, *cluster.flags(name), wait=wait, **settings)

    def await_listening(self, seconds=servers.START_SECONDS_MAX):
        self._await_listening(seconds)
        return self

    def await_told(self, words, times=1):
        end = time.monotonic() + START_SECONDS_MAX
        while self.log().count(words) < times:
            assert time.monotonic() < end, self.log()
            time.sleep(0.1)

    def stop_for_now(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Processes(servers.Members):
    """A cluster with all its processes."""

    ROLES_SECONDS_MAX = START_SECONDS_MAX

    def __init__(self, folder, names=("n1", "n2", "n3"), wiring="star", lease="2s", flags=(),
                 zones=None, binary=servers.BINARY):
        self.folder = folder
        self.binary = binary
        self.names = names
        self.zones = zones or {}
        self.key = folder / "cluster.key"
        self.zookeeper = self.new_zookeeper()
        self.addresses = {name: self.peer_address(name) for name in names}
        self.init("--wiring", wiring, "--lease", lease, *flags)
        self.members = {name: self.new_member(name, wait=False) for name in names}
        try:
            for member in self.members.values():
                member.await_listening()
        except BaseException:
            # Who does not serve may wait for another one, whose log says more.
            print(self.log())
            self.__exit__()
            raise

    def new_zookeeper(self):
        return ZooKeeper(self.folder / "zookeeper")

    def peer_address(self, _name):
        return free_address()

    def new_member(self, name, wait=True):
        return Member(self, name, wait=wait, binary=self.binary)

    def init(self, *flags, **more):
        more.setdefault("binary", self.binary)
        place = ["--zookeeper", self.zookeeper.hosts, "--cluster-key", self.key]
        named = [f"{name}={self.zones[name]}" if self.zones else name for name in self.names]
        members = ["--members", ",".join(named)]
        return servers.fader("cluster", "init", *place, *members, *flags, home=self.folder, **more)

    def flags(self, name):
        place = ["--zookeeper", self.zookeeper.hosts, "--cluster-key", self.key]
        return ["--node", name, "--peer-listen", self.addresses[name], *place]

    def status(self):
        done = servers.fader(
            "cluster", "status", "--zookeeper", self.zookeeper.hosts, home=self.folder,
            binary=self.binary,
        )
        lines = done.stdout.splitlines()
        is_chain = [line.startswith("chain ") for line in lines]
        nodes = is_chain.index(True) if True in is_chain else len(lines)
        return lines[:nodes], lines[nodes:]

    def why(self, *of, member=None):
        """What chains wait for, as ZooKeeper knows it, or a member."""
        asked = ["--data", member.data] if member else ["--zookeeper", self.zookeeper.hosts]
        return servers.fader("cluster", "diagnose", *of, *asked, home=self.folder).stdout

    def await_why(self, words, *of, member=None):
        end = time.monotonic() + START_SECONDS_MAX
        while words not in (why := self.why(*of, member=member)):
            assert time.monotonic() < end, f"{why}\n{self.log()}"
            time.sleep(0.1)
        return why

    def roles(self):
        """The epoch of the system chain, and each member's place in it."""
        (first, *nodes), _ = self.status()
        epoch = int(first.split()[1].rstrip(","))
        return epoch, {line.split()[0]: line.split()[1] for line in nodes}

    def chains(self):
        """The places in each chain of data: `chain 1: epoch 2: n2 head, n3 serving`."""
        _, lines = self.status()
        return {
            line.split(":")[0]: dict(place.split() for place in line.split(": ")[2].split(", "))
            for line in lines
            if ": epoch " in line
        }

    def await_chains(self, is_so, seconds=START_SECONDS_MAX):
        end = time.monotonic() + seconds
        while not all(is_so(places) for places in self.chains().values()):
            assert time.monotonic() < end, f"{self.chains()}\n{self.log()}"
            time.sleep(0.1)
        return self.chains()

    def head(self):
        _, roles = self.roles()
        return next(name for name, role in roles.items() if role == "head")

    def are_whole(self, roles):
        whole = ["head"] + ["serving"] * (len(self.names) - 1)
        return sorted(roles.values()) == whole

    def await_whole(self):
        return self.await_roles(self.are_whole)

    def version(self):
        (first, *_), _ = self.status()
        return int(first.rsplit(" ", 1)[1])

    def start(self, name):
        self.members[name] = self.new_member(name)

    def kill(self, name):
        self.members[name].kill()

    def log(self):
        return "\n".join(f"{name}:\n{member.log()}" for name, member in self.members.items())

    def clients(self, **settings):
        settings.setdefault("read_timeout", 30)
        return [member.client(**settings) for member in self.members.values()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members.values():
            member.__exit__()
        self.zookeeper.kill()


def await_success(order, log):
    """What a command printed when it succeeded; it is given again until it does."""
    end = time.monotonic() + START_SECONDS_MAX
    while (done := order()).returncode != 0:
        assert time.monotonic() < end, f"{done.stderr}\n{log()}"
        time.sleep(0.1)
    return done.stdout


def at_any(clients, call, seconds=60):
    """What the first of the members says that can, asked in turn until the time is over."""
    end = time.monotonic() + seconds
    while True:
        for client in clients:
            with contextlib.suppress(BotoCoreError, ClientError):
                return call(client)
        if end < time.monotonic():
            raise RuntimeError("no member answers")
        time.sleep(0.02)
