"""Three processes, of which one begins on a copy of its folder that passes for the folder itself.
Its member had reported nothing that the copy lacks."""

import shutil
import time

import pytest

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
