"""Three processes, of which one begins on a copy of its folder that passes for the folder itself:
its member had reported nothing that the copy lacks."""

import re
import shutil
import time

import pytest

import server as servers
from processes import START_SECONDS_MAX, Member, Processes, at_any
from sdb_calls import asking, get, put

LATE = [f"late-{number}" for number in range(20)]


def await_shown(member, item):
    """The member has applied it: it shows it with no other member asked."""
    eventual = asking(member.client(), {"x-fader-consistency": "eventual"})
    end = time.monotonic() + START_SECONDS_MAX
    while not get(eventual, "domain", item, consistent=False):
        assert time.monotonic() < end, member.log()
        time.sleep(0.05)


def put_copy_back(cluster):
    """All are down, and n1's folder is as it was in the same epoch, when less was acknowledged."""
    cluster.await_whole()
    cluster.await_chains(cluster.are_whole)
    n1 = cluster.members["n1"]
    client = n1.client(read_timeout=30)
    at_any([client], lambda sdb: sdb.create_domain(DomainName="domain"))
    at_any([client], lambda sdb: put(sdb, "domain", "early", n="1"))
    # Nothing is reported from here on.
    cluster.zookeeper.kill()
    n1.stop_for_now()
    copy = cluster.folder / "copy"
    shutil.copytree(n1.data, copy, ignore=shutil.ignore_patterns("*.sock"))
    n1.go_on()
    for item in LATE:
        at_any([client], lambda sdb, item=item: put(sdb, "domain", item, n="2"))
    for member in cluster.members.values():
        await_shown(member, LATE[-1])
    n1.kill()
    for name in ["n2", "n3"]:
        # In order, so that each knows when it begins that all of it is committed.
        cluster.members[name].stop()
    shutil.rmtree(n1.data)
    copy.rename(n1.data)
    cluster.zookeeper.start()


def await_began(cluster, name):
    """The process has its sessions, and takes orders."""
    end = time.monotonic() + START_SECONDS_MAX
    while not (cluster.members[name].data / "control.sock").exists():
        assert time.monotonic() < end, cluster.log()
        time.sleep(0.05)


@pytest.mark.alone
def test_of_those_that_are_back_the_one_that_has_most_begins_the_chain(tmp_path):
    with Processes(tmp_path, lease="10s", flags=["--chains", "1"]) as cluster:
        put_copy_back(cluster)
        for name in cluster.names:
            cluster.members[name] = Member(cluster, name, wait=False)
            await_began(cluster, name)
        for member in cluster.members.values():
            member.await_listening()
        cluster.await_chains(cluster.are_whole)
        for client in cluster.clients(read_timeout=30):
            for item, value in [("early", "1"), *((item, "2") for item in LATE)]:
                found = at_any([client], lambda sdb, item=item: get(sdb, "domain", item))
                assert found == {"n": [value]}
        assert "ahead by" not in cluster.log()


def test_members_that_know_more_than_the_copy_that_serves_stop(tmp_path):
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        put_copy_back(cluster)
        n1 = cluster.members["n1"] = Member(cluster, "n1")
        # It waited for the others, and is alone.
        client = n1.client(read_timeout=30)
        assert at_any([client], lambda sdb: get(sdb, "domain", "early")) == {"n": ["1"]}
        assert not at_any([client], lambda sdb: get(sdb, "domain", LATE[0]))
        at_any([client], lambda sdb: put(sdb, "domain", "of the copy", n="3"))
        for name in ["n2", "n3"]:
            cluster.members[name] = Member(cluster, name, wait=False)
            end = time.monotonic() + START_SECONDS_MAX
            told = re.compile(
                rf"^chain 1: {name} is ahead by (\d+) committed entries, and has stopped$", re.M
            )
            while not (found := told.search("\n".join(cluster.status()[1]))):
                assert time.monotonic() < end, f"{cluster.status()}\n{cluster.log()}"
                time.sleep(0.1)
            assert len(LATE) <= int(found[1])
            cluster.await_why(f"{name} knows {found[1]} committed entries", "1")
        # The copy goes on serving, and each of the others goes on being there.
        at_any([client], lambda sdb: put(sdb, "domain", "of the copy too", n="3"))
        for member in cluster.members.values():
            assert member.process.poll() is None and "panicked" not in member.log()
        told = servers.fader(
            "cluster", "restore", "1", "--member", "n2", "--yes",
            "--zookeeper", cluster.zookeeper.hosts, home=cluster.folder,
        )
        assert "chain 1 goes on with what n2 has" in told.stdout
        cluster.await_chains(cluster.are_whole)
        for member in cluster.members.values():
            client = member.client(read_timeout=30)
            for item in LATE:
                found = at_any([client], lambda sdb, item=item: get(sdb, "domain", item))
                assert found == {"n": ["2"]}
            assert not at_any([client], lambda sdb: get(sdb, "domain", "of the copy"))
            assert member.process.poll() is None and "panicked" not in member.log()
