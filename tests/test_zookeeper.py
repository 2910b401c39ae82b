"""An ensemble of three ZooKeeper servers: one is lost, then the leader; and TLS on the way."""

import signal
import time

import pytest

import server as servers
from processes import START_SECONDS_MAX, Processes, at_any
from sdb_calls import get, put
from test_processes import Load, await_refused
from zookeepers import Certificates, Ensemble


class OnEnsemble(Processes):
    """A cluster kept by three servers."""

    def __init__(self, folder, proofs=(), **settings):
        self.proofs = proofs
        self.settings = settings
        super().__init__(folder, flags=["--chains", "1"])

    def new_zookeeper(self):
        return Ensemble(self.folder / "zookeeper", **self.settings)

    def place(self):
        return ["--zookeeper", self.zookeeper.hosts, *self.proofs]

    def init(self, *flags, **more):
        # The servers choose a leader first.
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            done = super().init(*flags, *self.proofs, check=False, **more)
            if done.returncode == 0 or "there is a cluster" in done.stderr:
                return done
            assert time.monotonic() < end, done.stderr
            time.sleep(0.2)

    def flags(self, name):
        return [*super().flags(name), *self.proofs]

    def status(self):
        # While the servers choose a leader they answer no request.
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            done = servers.fader("cluster", "status", *self.place(), home=self.folder, check=False)
            if done.returncode == 0:
                break
            assert time.monotonic() < end, done.stderr
            time.sleep(0.2)
        lines = done.stdout.splitlines()
        return lines[: len(self.names) + 1], lines[len(self.names) + 1 :]

    def __exit__(self, *_):
        for member in self.members.values():
            member.__exit__()
        self.zookeeper.close()


def test_a_server_and_the_leader_are_lost(tmp_path):
    with OnEnsemble(tmp_path) as cluster:
        cluster.await_whole()
        ensemble = cluster.zookeeper
        with Load(cluster) as load:
            leader = ensemble.leader()
            follower = next(number for number in ensemble.processes if number != leader)
            ensemble.kill(follower)
            load.await_more()
            ensemble.start(follower)
            ensemble.kill(leader)
            load.await_more(200)
            cluster.await_whole()
            # Another head is chosen, with what is left of the ensemble.
            head = cluster.head()
            cluster.kill(head)
            cluster.await_roles(lambda roles: roles[head] == "out" and "head" in roles.values())
            load.await_more()
            cluster.start(head)
            cluster.await_whole()
            # Without a majority there are no leases; with one again there are.
            ensemble.kill(follower)
            await_refused(lambda: get(cluster.clients()[0], "domain", "item-1"))
            ensemble.start(leader)
            load.await_more()
            cluster.await_whole()
        load.check()


@pytest.mark.drawn
@pytest.mark.parametrize("client_auth", ["none", "need"])
def test_the_way_to_zookeeper_is_encrypted(tmp_path, client_auth):
    certificates = Certificates(tmp_path / "certificates")
    certificate, key = certificates.sign("fader")
    proofs = ["--zookeeper-tls", certificates.authority]
    if client_auth == "need":
        proofs += ["--zookeeper-certificate", certificate, "--zookeeper-key", key]
    with OnEnsemble(
        tmp_path, proofs, certificates=certificates, client_auth=client_auth
    ) as cluster:
        cluster.await_whole()
        client = cluster.clients()[0]
        client.create_domain(DomainName="domain")
        put(client, "domain", "item", n="1")
        assert get(cluster.clients()[2], "domain", "item") == {"n": ["1"]}
        status = lambda *proofs: servers.fader(
            "cluster", "status", "--zookeeper", cluster.zookeeper.hosts, *proofs,
            home=tmp_path, check=False,
        )
        assert status(*proofs).returncode == 0
        # A server of another authority is not asked, nor one with whom no TLS is spoken.
        other = Certificates(tmp_path / "others")
        told = status("--zookeeper-tls", other.authority)
        assert told.returncode != 0 and "certificate" in told.stderr
        assert status().returncode != 0
        if client_auth == "need":
            assert status("--zookeeper-tls", certificates.authority).returncode != 0
        # The servers change to the other authority, and no member is started again.
        trusted = certificates.authority
        trusted.write_text(trusted.read_text() + other.authority.read_text())
        for member in cluster.members.values():
            member.process.send_signal(signal.SIGHUP)
            member.await_told("TLS files and log level are read again")
        for number in [1, 2, 3]:
            cluster.zookeeper.certify(number, other)
            cluster.zookeeper.kill(number)
            cluster.zookeeper.start(number)
        # A read of one member alone needs a lease, and so ZooKeeper.
        for client in cluster.clients():
            assert at_any([client], lambda sdb: get(sdb, "domain", "item")) == {"n": ["1"]}
        cluster.await_whole()
        assert all(member.process.poll() is None for member in cluster.members.values())
        key.chmod(0o644)
        told = status(
            "--zookeeper-tls", certificates.authority,
            "--zookeeper-certificate", certificate, "--zookeeper-key", key,
        )
        assert told.returncode != 0 and "chmod 600" in told.stderr
