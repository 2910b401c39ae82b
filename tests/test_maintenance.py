"""A rolling restart by `fader cluster maintenance`: clients that ask the other nodes meanwhile are
refused nothing. Three nodes; FADER_NODES says how many else."""

import os
import subprocess
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import loads
import server as servers
from processes import Processes, at_any
from sdb_calls import asking, get, put

NODES = int(os.environ.get("FADER_NODES", "3"))
NAMES = tuple(f"n{number}" for number in range(1, NODES + 1))
DOMAINS = [f"domain-{number}" for number in range(4)]
MORE = 24
MORE_SECONDS_MAX = 240
EVENTUAL = {"x-fader-consistency": "eventual"}


class Load(loads.Load):
    """A client writes and reads at each node that does not rest, and notes each refusal."""

    def __init__(self, cluster):
        super().__init__(*[lambda name=name: self.ask(name) for name in cluster.names])
        self.cluster = cluster
        self.resting = set()
        self.under_way = {name: threading.Lock() for name in cluster.names}
        self.count = 0
        self.refused = []

    def begin(self):
        clients = [asking(client, {"x-fader-collection-mode": "mixed"})
                   for client in self.cluster.clients()]
        for domain in DOMAINS:
            at_any(clients, lambda sdb, domain=domain: sdb.create_domain(DomainName=domain))

    def ask(self, name):
        serial = 0
        while not self.is_ending:
            with self.under_way[name]:
                if name not in self.resting:
                    serial += 1
                    self.ask_once(name, serial)
            time.sleep(0.01)

    def ask_once(self, name, serial):
        strong = self.cluster.members[name].client(read_timeout=30)
        eventual = asking(self.cluster.members[name].client(read_timeout=30), EVENTUAL)
        domain, value = DOMAINS[serial % len(DOMAINS)], str(serial)
        try:
            put(strong, domain, name, replace=True, n=value)
            assert get(strong, domain, name) == {"n": [value]}
            put(eventual, domain, f"{name}-eventual", e=value)
            get(eventual, domain, f"{name}-eventual", consistent=False)
        except (BotoCoreError, ClientError, AssertionError) as error:
            self.refused.append(f"{name}: {error!r} {getattr(error, 'response', '')}")
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def await_more(self):
        goal = self.count + MORE
        self.await_that(lambda: goal <= self.count, seconds=MORE_SECONDS_MAX)

    def leave(self, name):
        """No client asks that node any more."""
        self.resting.add(name)
        with self.under_way[name]:
            pass


def maintenance(cluster, name, what):
    return servers.fader("cluster", "maintenance", name, what, "--zookeeper",
                         cluster.zookeeper.hosts, home=cluster.folder).stdout


@pytest.fixture
def cluster(tmp_path):
    with Processes(tmp_path, NAMES, flags=("--chains", "2")) as cluster:
        yield cluster


def is_a_head(cluster, name):
    return any(places.get(name) == "head"
               for places in [cluster.roles()[1], *cluster.chains().values()])


def are_whole(places):
    return sorted(places.values()) == ["head"] + ["serving"] * (len(places) - 1)


def test_a_rolling_restart_refuses_nothing(cluster):
    """It shows ROUTE-5."""
    cluster.await_whole()
    cluster.await_chains(are_whole)
    with Load(cluster) as load:
        for name in cluster.names:
            load.leave(name)
            assert "its process may be stopped" in maintenance(cluster, name, "--on")
            assert not is_a_head(cluster, name)
            assert f" {cluster.addresses[name]} rests" in "\n".join(cluster.status()[0])
            assert cluster.members[name].stop() == 0, cluster.log()
            load.await_more()
            cluster.start(name)
            cluster.await_whole()
            cluster.await_chains(are_whole)
            assert not is_a_head(cluster, name), "it comes back as another member"
            assert "may be a head again" in maintenance(cluster, name, "--off")
            load.resting.remove(name)
            load.await_more()
    assert not load.refused, "\n".join([*load.refused, cluster.log()])


def test_a_node_whose_chains_are_not_whole_is_not_to_be_stopped(cluster):
    cluster.await_whole()
    cluster.await_chains(are_whole)
    one, other, *_ = cluster.names
    assert cluster.members[other].stop() == 0
    waiting = subprocess.Popen(
        [servers.BINARY, "cluster", "maintenance", one, "--on", "--zookeeper",
         cluster.zookeeper.hosts],
        env=servers.environment(cluster.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )
    with servers.killed_after(servers.START_SECONDS_MAX, waiting):
        said = waiting.stderr.readline()
        assert f"{other} does not serve, but {other} does not run after" in said
        cluster.start(other)
        assert "its process may be stopped" in waiting.communicate()[0]
    missing = servers.fader("cluster", "maintenance", "n9", "--on", "--zookeeper",
                            cluster.zookeeper.hosts, home=cluster.folder, check=False)
    assert missing.returncode == 1 and "n9 is no node of the cluster" in missing.stderr


def test_a_watch_prints_a_status_when_it_changes(cluster):
    cluster.await_whole()
    watch = subprocess.Popen(
        [servers.BINARY, "cluster", "status", "--watch", "--zookeeper", cluster.zookeeper.hosts],
        env=servers.environment(cluster.folder), stdout=subprocess.PIPE, text=True,
    )
    with servers.killed_after(servers.START_SECONDS_MAX, watch):
        assert watch.stdout.readline().startswith("epoch ")
        maintenance(cluster, "n1", "--on")
        while " rests" not in (line := watch.stdout.readline()):
            assert line, "it ended"
        cluster.zookeeper.kill()
        while "waits for ZooKeeper" not in (line := watch.stdout.readline()):
            assert line, "it ended"
        watch.kill()
