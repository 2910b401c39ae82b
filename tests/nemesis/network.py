"""Namespaces, one for each process, around a router that can lose what one sends to another.

The router is the namespace of the caller; it needs rights in it, and nothing else: `unshare` gives
them. Namespaces and links end with the process that made them."""

import pathlib
import subprocess

MOUNTS = pathlib.Path("/run/netns")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """`names`, each with the address `address(name)`."""

    def __init__(self, names):
        self.numbers = {name: number for number, name in enumerate(names, start=1)}
        self.lost = set()
        MOUNTS.mkdir(parents=True, exist_ok=True)
        # Names of our own: those of the machine stay unseen and untouched.
        subprocess.run(["mount", "-t", "tmpfs", "none", MOUNTS], check=True)
        ip("link", "set", "lo", "up")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for name in names:
            self._join(name)

    def _join(self, name):
        inside, router = self.address(name), f"10.77.{self.numbers[name]}.254"
        ip("netns", "add", name)
        ip("link", "add", self._link(name), "type", "veth", "peer", "name", "out", "netns", name)
        ip("address", "add", f"{router}/24", "dev", self._link(name))
        ip("link", "set", self._link(name), "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "address", "add", f"{inside}/24", "dev", "out")
        ip("-n", name, "link", "set", "out", "up")
        ip("-n", name, "route", "add", "default", "via", router)

    @staticmethod
    def _link(name):
        return f"to-{name}"

    def address(self, name):
        return f"10.77.{self.numbers[name]}.1"

    def inside(self, name):
        """What makes a command run in the namespace of `name`; it keeps its process id."""
        return ["ip", "netns", "exec", name]

    def _rule(self, verb, source, target):
        ip("rule", verb, "iif", self._link(source), "to", self.address(target), "blackhole")

    def lose(self, source, target):
        """From now on what `source` sends to `target` is lost, without a word."""
        if (source, target) not in self.lost:
            self._rule("add", source, target)
            self.lost.add((source, target))

    def deliver(self, source, target):
        if (source, target) in self.lost:
            self._rule("delete", source, target)
            self.lost.remove((source, target))

    def heal(self):
        for source, target in list(self.lost):
            self.deliver(source, target)
