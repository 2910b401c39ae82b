"""Everything that docs/explanation/congestion-window.md measures in real time, by one command.

    cargo xtask bench phases [--quick] [--items N] [--limit LIMIT] [--only NAME,NAME]

At a Fader SimpleDB of limited capacity: the five phases of the article of 2008 by Fader's client
and by the article's rule. Then by 34 threads that back off, and by boto3 with 34 threads in
standard and adaptive mode. Then the article's open question, whether several addresses help. It
takes three addresses of one server, with its one capacity, and three members of one cluster, each
with a capacity of its own. Logs and plots are left in target/phases, and the last table compares
all runs. The article's 10,000 puts and deletes at 75 a second take half an hour. A higher limit of
puts, which changes nothing about gets, takes less.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys

import processes
import server as servers

HERE = pathlib.Path(__file__).resolve().parent
# What the seed found in 2008: 1,300 gets and 50 to 100 puts a second, 113 ms away.
LIMIT = "gets=1300/s+100,puts=75/s+10,latency=93ms,work=20ms"
CLIENTS = ["window", "seed", "threads"]
MODES = ["standard", "adaptive"]
SHARED = "three-addresses-of-one-server"
ONE_MEMBER = "one-member-of-three"
MEMBERS = "three-members-of-three"
NAMES = [*CLIENTS, *(f"boto3-{mode}" for mode in MODES), SHARED, ONE_MEMBER, MEMBERS]
# The article's question: a run at one address, one at three, and what those are.
ADDRESSES = [
    ("window", SHARED, "three addresses of one server"),
    (ONE_MEMBER, MEMBERS, "three members of a cluster"),
]


class Members(processes.Processes):
    """A cluster whose members have a limited capacity each."""

    def __init__(self, folder, limit):
        self.limit = limit
        super().__init__(folder)

    def flags(self, name):
        return [*super().flags(name), "--limit", self.limit]


class Runs:
    """Runs the phases, and keeps what they leave."""

    def __init__(self, folder, items, limit, only):
        self.folder = folder
        self.limit = limit
        self.items = items
        self.only = only
        self.done = []

    def wants(self, *names):
        return not self.only or any(name in self.only for name in names)

    def fader(self, name, url, *flags):
        files = ["--log", self.folder / f"{name}.json", "--plot", self.folder / f"{name}.svg"]
        self.show(name, url, "--items", str(self.items), *files, *flags)
        self.done.append(name)

    def sdk(self, mode, url):
        log = self.folder / f"boto3-{mode}.json"
        command = [sys.executable, HERE / "sdk_phases.py", url, mode, log]
        environment = servers.environment(self.folder, **servers.signing(url))
        subprocess.run([*command, "--items", str(self.items)], env=environment, check=True)
        self.show(f"boto3-{mode}", url, "--show", log, "--plot", log.with_suffix(".svg"))
        self.done.append(f"boto3-{mode}")

    def show(self, name, url, *flags):
        # What was given up is in the table: no reason to end.
        done = subprocess.run(
            [servers.BINARY, "measure", "window", *flags],
            env=servers.environment(self.folder, **servers.signing(url)),
            capture_output=True,
            text=True,
        )
        print(f"{name}\n{done.stdout}{done.stderr}", flush=True)
        if not done.stdout:
            raise RuntimeError(f"{name}: no table")

    @contextlib.contextmanager
    def server(self, name, **more):
        """A new server for each run, so that none finds what another left."""
        home = self.folder / "servers" / name
        home.mkdir(parents=True)
        with servers.Server(home, "--limit", self.limit, **more) as server:
            yield server


def one_address(runs):
    for client in filter(runs.wants, CLIENTS):
        with runs.server(client) as server:
            runs.fader(client, server.url, "--client", client)
    for mode in MODES:
        if runs.wants(f"boto3-{mode}"):
            with runs.server(f"boto3-{mode}") as server:
                runs.sdk(mode, server.url)


def also(urls):
    return [flag for url in urls for flag in ("--also", url)]


def several_addresses(runs):
    if runs.wants(SHARED):
        with runs.server(SHARED, listen="0.0.0.0:0") as server:
            urls = [f"http://127.0.0.{host}:{server.port}" for host in (1, 2, 3)]
            runs.fader(SHARED, urls[0], *also(urls[1:]))
    if not runs.wants(ONE_MEMBER, MEMBERS):
        return
    home = runs.folder / "servers" / "cluster"
    home.mkdir(parents=True)
    with Members(home, runs.limit) as cluster:
        cluster.await_whole()
        urls = [member.url for member in cluster.members.values()]
        if runs.wants(ONE_MEMBER):
            runs.fader(ONE_MEMBER, urls[0])
        if runs.wants(MEMBERS):
            runs.fader(MEMBERS, urls[0], *also(urls[1:]))


def figures(phases):
    """Requests answered a second of puts, gets and deletes, and of all the share refused."""
    ended = sum(phase["answered"] + phase["refused"] + phase["given_up"] for phase in phases)
    return dict(
        puts=rate(phases[:1]),
        gets=rate(phases[1:4]),
        deletes=rate(phases[4:]),
        refused=100 * sum(phase["refused"] for phase in phases) / ended,
        given_up=sum(phase["given_up"] for phase in phases),
        seconds=phases[4]["end_s"] - phases[0]["start_s"],
    )


def rate(phases):
    answered = sum(phase["answered"] for phase in phases)
    return answered / sum(phase["end_s"] - phase["start_s"] for phase in phases)


def compare(runs):
    """All runs in one table, and what several addresses brought."""
    told = {}
    for name in runs.done:
        recording = json.loads((runs.folder / f"{name}.json").read_text())
        told[name] = figures(recording["phases"])
    print(f"{'':30} puts/s  gets/s  deletes/s  refused %  given up  all, s")
    for name, it in told.items():
        print(
            f"{name:30} {it['puts']:6.0f}  {it['gets']:6.0f}  {it['deletes']:9.0f}"
            f"  {it['refused']:9.2f}  {it['given_up']:8}  {it['seconds']:6.1f}"
        )
    for one, several, what in ADDRESSES:
        if one in told and several in told:
            ratios = [
                f"{kind} {told[several][kind] / told[one][kind]:.2f}"
                for kind in ("puts", "gets", "deletes")
            ]
            print(f"{what}: {', '.join(ratios)} times as many a second as at one address")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="200 items: shows that it works")
    parser.add_argument("--items", type=int, help="items; the article's 10,000 unless told")
    parser.add_argument("--limit", default=LIMIT, help=f"of each server; {LIMIT} unless told")
    parser.add_argument("--only", default="", help=f"of {', '.join(NAMES)}; all unless told")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    for name in only:
        if name not in NAMES:
            parser.error(f"there is no run {name!r}")
    options.folder.mkdir(parents=True)
    items = options.items or (200 if options.quick else 10_000)
    runs = Runs(options.folder, items, options.limit, only)
    one_address(runs)
    several_addresses(runs)
    compare(runs)


if __name__ == "__main__":
    main()
