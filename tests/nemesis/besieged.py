"""The cluster under attack. Each member is in a namespace of its own, with a small disk of its own
and a clock that can be set."""

import contextlib
import os
import pathlib
import re
import select
import subprocess
import time
import urllib.request

from nemesis import ensemble
from processes import Member, Processes

LISTEN_PORT, PEER_PORT = 4566, 4570
WHOLE_SECONDS_MAX = 120
# A chain that is not full for so long is asked what it waits for.
WHY_SECONDS = 2
# Members of each chain beside the system chain; that has one on every node.
COPIES = 3
# How often a member looks whether its clock was set.
CLOCK_READ_SECONDS = 1
LIBRARIES = "usr/lib/*/faketime/libfaketimeMT.so.1"


def clock_library():
    """What sets the clock of one process (Debian: faketime), if it is installed."""
    return next(pathlib.Path("/").glob(LIBRARIES), None)


class Broken(Exception):
    """The cluster did not do what it must without any client being wronged."""


class Besieged(Processes):
    """A cluster that is whole when nothing is done to it. Members that end are started again, as
    systemd would."""

    DISK_BYTES = 512 << 20

    def __init__(self, folder, network, names, zookeepers=1, **settings):
        self.network, self.folder, self.zookeepers = network, folder, zookeepers
        self.library = clock_library()
        self.ended = []
        # How many members were seen out of a chain at once, since it was awaited.
        self.away_max = 0
        self.forgotten = {}
        self.asked_why = 0
        # When the clocks stopped of those that are paused.
        self.paused = {}
        for name in names:
            (folder / name).mkdir()
            self._clock(name).write_text("+0")
            self.mount(folder / name / "disk")
        super().__init__(folder, names, **settings)

    def mount(self, disk):
        disk.mkdir(exist_ok=True)
        options = f"size={self.DISK_BYTES},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)

    def _clock(self, name):
        return self.folder_of(name) / "clock"

    def _stopped(self, name):
        return self.folder_of(name) / "stopped"

    def folder_of(self, name):
        return self.folder / name

    def new_zookeeper(self):
        return ensemble.begin(self.folder, self.network, self.zookeepers)

    def peer_address(self, name):
        return f"{self.network.address(name)}:{PEER_PORT}"

    def client_address(self, name):
        return self.network.address(name), LISTEN_PORT

    def settings_of(self, name):
        """What a member has in its environment beside what each server has."""
        # Builds with assertions go by it.
        stopped = {"FADER_TEST_STOPPED_MS": str(self._stopped(name))}
        if not self.library:
            return stopped
        return stopped | {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock(name)),
            "FAKETIME_CACHE_DURATION": str(CLOCK_READ_SECONDS),
            # What leases and timers use is left alone.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def new_member(self, name, wait=True):
        return Member(
            self, name, wait=False, data=self.folder_of(name) / "disk" / "data",
            more=self.settings_of(name), before=self.network.inside(name), binary=self.binary,
            listen=f"{self.network.address(name)}:{LISTEN_PORT}",
        )

    def start(self, name):
        with contextlib.suppress(OSError):
            self.members[name].process.stdout.close()
        # A new process has a new clock.
        self._stopped(name).unlink(missing_ok=True)
        super().start(name)

    def wipe(self, name):
        """A new, empty disk instead of the old one."""
        disk = self.folder_of(name) / "disk"
        subprocess.run(["umount", "--lazy", disk], check=True)
        self.mount(disk)

    def fill(self, name):
        """Takes all that is left of the disk."""
        with open(self.folder_of(name) / "disk" / "filler", "wb") as filler:
            for size in [1 << 20, 1 << 12]:
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), size)

    def free(self, name):
        (self.folder_of(name) / "disk" / "filler").unlink(missing_ok=True)

    def set_clock(self, name, seconds):
        self._clock(name).write_text(f"{seconds:+d}")

    def pause(self, name):
        """The machine of a member stands still, and its clocks with it."""
        self.paused[name] = time.monotonic()
        self.members[name].stop_for_now()

    def resume(self, name):
        """It goes on, with clocks that are late by the pause."""
        file = self._stopped(name)
        before = int(file.read_text()) if file.exists() else 0
        late = time.monotonic() - self.paused.pop(name)
        new = file.with_suffix(".new")
        new.write_text(f"{before + int(late * 1000)}\n")
        new.rename(file)
        self.set_clock(name, -int(late))
        self.members[name].go_on()

    def start_ended(self):
        """Starts what has ended by itself."""
        for name, member in self.members.items():
            code = member.process.poll()
            if code is not None:
                self.ended.append(f"{name}: code {code}")
                time.sleep(1)
                self.start(name)

    def is_whole(self):
        """Whether every member serves and is in its chain; with why not."""
        for name, member in self.members.items():
            if not self._has_come(member):
                return False, f"{name} does not serve yet"
        try:
            _, roles = self.roles()
            chains = self.chains()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return False, str(error)
        full = ["head"] + ["serving"] * (COPIES - 1)
        for places in [roles, *chains.values()]:
            out = len([place for place in places.values() if place not in full])
            self.away_max = max(self.away_max, out)
        are_full = all(sorted(places.values()) == full for places in chains.values())
        return self.are_whole(roles) and are_full, f"{roles} {chains}"

    @staticmethod
    def _has_come(member):
        """Whether it has said that it serves. One that was killed and is back within its lease is
        in the chain by what the others know, and does not serve."""
        if member.url is None and select.select([member.process.stdout], [], [], 0)[0]:
            line = member.process.stdout.readline()
            if line.startswith("listening on "):
                member.url = line.removeprefix("listening on ").strip()
        return member.url is not None

    def await_full(self):
        """Waits for full chains, without other help than starting what has ended."""
        start = time.monotonic()
        end, ask_at = start + WHOLE_SECONDS_MAX, start + WHY_SECONDS
        self.away_max = 0
        while True:
            self.start_ended()
            is_whole, roles = self.is_whole()
            if is_whole:
                return
            if end < time.monotonic():
                raise Broken(f"no full chains after {WHOLE_SECONDS_MAX} s: {roles}")
            if ask_at < time.monotonic():
                self.ask_why()
                ask_at = time.monotonic() + WHY_SECONDS
            time.sleep(0.2)

    def ask_why(self):
        """A chain that is not full waits for something, and `fader cluster diagnose` knows it."""
        try:
            before, why, after = self._lacking(), self.why(), self._lacking()
        except (AssertionError, subprocess.TimeoutExpired):
            return
        self.asked_why += 1
        for number, epoch, places in before & after:
            start = f"chain {number} (epoch {epoch},"
            told = [line for line in why.splitlines() if line.startswith(start)]
            if any(line.endswith("waits for nothing") for line in told):
                raise Broken(f"{told}, and status says {places}")

    def _lacking(self):
        """The chains that are not full, with their epochs and who is in them."""
        (first, *nodes), lines = self.status()
        roles = {line.split()[0]: line.split()[1] for line in nodes}
        system = ("0", first.split()[1].rstrip(","), str(roles))
        found = set() if self.are_whole(roles) else {system}
        full = sorted(["head"] + ["serving"] * (COPIES - 1))
        for line in lines:
            said = re.match(r"chain (\d+): epoch (\d+): (.*)", line)
            if said and sorted(one.split()[1] for one in said[3].split(", ")) != full:
                found.add((said[1], said[2], said[3]))
        return found

    def newly_forgotten(self):
        """How many eventual writes members have dropped by GC-5 and JN-7 since this was asked, of
        which nothing is known. One that was settled, or that newer ones cover, excuses no loss."""
        found = {}
        for name, member in self.members.items():
            text = ""
            with contextlib.suppress(OSError, TypeError):
                text = urllib.request.urlopen(f"{member.url}/metrics", timeout=5).read().decode()
            counts = {line.split()[0]: int(float(line.split()[1])) for line in text.splitlines()
                      if line.startswith("fader_chain_forgotten_total") and '"unknown"' in line}
            known = self.forgotten.get((name, member.process.pid), {})
            self.forgotten[name, member.process.pid] = known | counts
            # Counts of a member that has begun another life in the same process begin anew.
            new = [count - known.get(chain, 0) if known.get(chain, 0) <= count else count
                   for chain, count in counts.items()]
            if sum(new):
                found[name] = sum(new)
        return found

    def panics(self):
        """What members said that none may say."""
        for name, member in self.members.items():
            for line in member.log().splitlines():
                if "panicked" in line:
                    yield f"{name}: {line}"
