"""Everything that docs/window.md promises to measure in real time, by one command.

    cargo xtask bench phases [--quick]

At a Fader SimpleDB of limited capacity: the seed's five phases by Fader's client, by its rule of
2008, by 34 threads that back off, and by boto3 with 34 threads in standard and adaptive mode. Then
the seed's open question, whether several addresses help: three addresses of one server, with its
one capacity, and three members of one cluster, each with a capacity of its own. Logs and plots are
left in target/phases.
"""

import argparse
import contextlib
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


class Members(processes.Processes):
    """A cluster whose members have a limited capacity each."""

    def flags(self, name):
        return [*super().flags(name), "--limit", LIMIT]


class Runs:
    """Runs the phases, and keeps what they leave."""

    def __init__(self, folder, items):
        self.folder = folder
        self.items = items

    def fader(self, name, url, *flags):
        files = ["--log", self.folder / f"{name}.json", "--plot", self.folder / f"{name}.svg"]
        self.show(name, url, "--items", str(self.items), *files, *flags)

    def sdk(self, mode, url):
        log = self.folder / f"boto3-{mode}.json"
        command = [sys.executable, HERE / "sdk_phases.py", url, mode, log]
        environment = servers.environment(self.folder, **servers.signing(url))
        subprocess.run([*command, "--items", str(self.items)], env=environment, check=True)
        self.show(f"boto3-{mode}", url, "--show", log, "--plot", log.with_suffix(".svg"))

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
        with servers.Server(home, "--limit", LIMIT, **more) as server:
            yield server


def one_address(runs):
    for client in CLIENTS:
        with runs.server(client) as server:
            runs.fader(client, server.url, "--client", client)
    for mode in MODES:
        with runs.server(f"boto3-{mode}") as server:
            runs.sdk(mode, server.url)


def also(urls):
    return [flag for url in urls for flag in ("--also", url)]


def several_addresses(runs):
    with runs.server("three-addresses", listen="0.0.0.0:0") as server:
        urls = [f"http://127.0.0.{host}:{server.port}" for host in (1, 2, 3)]
        runs.fader("three-addresses-of-one-server", urls[0], *also(urls[1:]))
    home = runs.folder / "servers" / "cluster"
    home.mkdir(parents=True)
    with Members(home) as cluster:
        cluster.await_whole()
        urls = [member.url for member in cluster.members.values()]
        runs.fader("one-member-of-three", urls[0])
        runs.fader("three-members-of-three", urls[0], *also(urls[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="200 items: shows that it works")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    runs = Runs(options.folder, 200 if options.quick else 10_000)
    one_address(runs)
    several_addresses(runs)


if __name__ == "__main__":
    main()
