"""`fader cluster diagnose` names what a chain waits for; `restore` ends one wait."""

import functools
import re
import shutil

import pytest

import server as servers
from processes import Processes, at_any
from sdb_calls import asking, get, put, refused


@pytest.fixture
def cluster(tmp_path):
    with Processes(tmp_path, flags=["--chains", "1"]) as running:
        running.await_whole()
        running.await_chains(running.are_whole)
        yield running


def test_a_chain_says_what_it_waits_for(cluster):
    n1, n3 = cluster.members["n1"], cluster.members["n3"]
    assert cluster.await_why("chain 0", "0").endswith(") waits for nothing\n")
    cluster.await_why("waits for nothing", "1", member=n1)
    mixed = asking(n1.client(), {"x-fader-collection-mode": "mixed"})
    mixed.create_domain(DomainName="carts")
    cluster.await_why("chain 1", "carts", member=n1)
    # A folder is asked before the ZooKeeper that the environment names.
    named = {"FADER_ZOOKEEPER": cluster.zookeeper.hosts}
    told = servers.fader(
        "cluster", "diagnose", "carts", "--data", n1.data, home=cluster.folder, **named
    )
    assert told.stdout.startswith("chain 1 "), told.stdout
    assert "no chain 7" in error(cluster, "7", "--data", n1.data)
    assert "such chain" in error(cluster, "7", "--zookeeper", cluster.zookeeper.hosts)
    assert "socks" in error(cluster, "socks", "--data", n1.data)
    # One that is stopped is waited for, and then missed.
    n3.stop_for_now()
    cluster.await_why("for a ping of n3", "1")
    cluster.await_why("for more members: there are 2 of 3", "1")
    n3.go_on()
    cluster.await_why("waits for nothing", "1")
    # One that is away when a domain closes may hold writes of it.
    cluster.kill("n3")
    cluster.await_roles(lambda roles: roles["n3"] == "out")
    cluster.await_why("for more members: there are 2 of 3", "1")
    head = cluster.members[next(
        name for name, role in cluster.chains()["chain 1"].items() if role == "head"
    )]
    assert "waits for n3 to come back" in head.mode("carts", "strong")
    cluster.await_why("domain carts is draining, for n3 to come back", "carts", member=head)
    cluster.start("n3")
    cluster.await_why("waits for nothing", "1", member=head)
    # Without ZooKeeper no member is removed, and leases end.
    cluster.zookeeper.kill()
    cluster.await_why("for ZooKeeper to answer this process", "1", member=head)
    cluster.await_why("its lease is over", "1", member=head)
    cluster.zookeeper.start()
    cluster.await_why("waits for nothing", "1", member=head)


def test_any_node_tells_what_others_know(tmp_path):
    names = ("n1", "n2", "n3", "n4")
    with Processes(tmp_path, names=names, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        places = cluster.await_chains(
            lambda places: sorted(places.values()) == ["head", "serving", "serving"]
        )["chain 1"]
        (outside,) = set(names) - places.keys()
        lost = next(name for name, role in places.items() if role != "head")
        asked, client = cluster.members[outside], cluster.members[outside].client()
        client.create_domain(DomainName="carts")
        # At any node, also one without a member of the chain.
        for member in cluster.members.values():
            assert member.mode("carts") == "carts: strong\n"
        assert asked.mode("carts", "mixed") == "carts: mixed\n"
        for member in cluster.members.values():
            assert member.mode("carts") == "carts: mixed\n"
        assert "no domain socks" in refusal(lambda: asked.mode("socks"))
        assert "no domain socks" in refusal(lambda: asked.mode("socks", "mixed"))
        cluster.kill(lost)
        cluster.await_roles(lambda roles: roles[lost] == "out")
        cluster.await_why("for more members: there are 2 of 3", "1")
        assert f"draining, waits for {lost} to come back" in asked.mode("carts", "strong")
        for name in set(names) - {lost}:
            member = cluster.members[name]
            cluster.await_why(f"domain carts is draining, for {lost} to come", "1", member=member)
        assert asked.mode("carts", "strong", "--abandon", "--wait") == "carts: strong\n"
        for name in set(names) - {lost}:
            assert cluster.members[name].mode("carts") == "carts: strong\n"
        # No command waits for one that is stopped.
        head = next(name for name, role in places.items() if role == "head")
        (other,) = places.keys() - {head, lost}
        cluster.members[head].stop_for_now()
        why = cluster.why("1", member=cluster.members[outside])
        assert f"{head} did not say what its member waits for" in why
        cluster.members[head].go_on()
        cluster.await_why("for more members: there are 2 of 3", "1", member=cluster.members[other])


def names_in(why):
    """For every name: the number of a disk that has no name would show as `n14`."""
    return set(re.findall(r"\bn\d+\b", why))


def refusal(call):
    with pytest.raises(RuntimeError) as raised:
        call()
    return str(raised.value)


def error(cluster, *words):
    done = servers.fader("cluster", "diagnose", *words, home=cluster.folder, check=False)
    assert done.returncode != 0
    return done.stderr


def restoring(cluster, *words):
    """What comes of `fader cluster restore`."""
    return servers.fader(
        "cluster", "restore", *words, "--zookeeper", cluster.zookeeper.hosts,
        home=cluster.folder, check=False,
    )


def test_a_chain_that_is_down_names_its_disks_and_is_restored(cluster):
    clients = cluster.clients()
    at_any(clients, lambda sdb: sdb.create_domain(DomainName="domain"))
    put(clients[0], "domain", "item", n="1")
    # n3 is behind what is acknowledged when the others are lost.
    assert cluster.members["n3"].stop() == 0
    for chain in ["0", "1"]:
        cluster.await_why("for more members: there are 2 of 3", chain)
    at_any(cluster.clients()[:2], lambda sdb: put(sdb, "domain", "item", n="2"))
    for name in ["n1", "n2"]:
        cluster.kill(name)
    cluster.members["n3"] = cluster.new_member("n3", wait=False)
    for chain in ["0", "1"]:
        why = cluster.await_why("all members that served are down", chain)
        assert "recovers the whole chain" in why
        assert {"n1", "n2"} & set(why.replace(",", " ").replace(".", " ").split())
    for name in ["n1", "n2"]:
        shutil.rmtree(cluster.folder / name / "data")
    restore = functools.partial(restoring, cluster)
    told = restore("1", "--member", "n3")
    assert told.returncode != 0 and "would be lost for ever" in told.stderr
    told = restore("1", "--member", "n1", "--yes")
    assert told.returncode != 0 and "does not run" in told.stderr
    told = restore("1", "--member", "n9", "--yes")
    assert told.returncode != 0 and "no node of the cluster" in told.stderr
    told = restore("7", "--member", "n3", "--yes")
    assert told.returncode != 0 and "no chain 7" in told.stderr
    for chain in ["0", "1"]:
        told = restore(chain, "--member", "n3", "--yes")
        assert told.returncode == 0, told.stderr
        assert f"chain {chain} goes on with what n3 has" in told.stdout
    cluster.members["n3"].await_listening()
    n3 = cluster.members["n3"].client()
    # What n3 has is there, and what was acknowledged without it is not.
    assert at_any([n3], lambda sdb: get(sdb, "domain", "item")) == {"n": ["1"]}
    at_any([n3], lambda sdb: put(sdb, "domain", "item", n="3"))
    told = restore("1", "--member", "n3", "--yes")
    assert told.returncode != 0 and "nothing has to be lost: n3 serves" in told.stderr
    for name in ["n1", "n2"]:
        cluster.start(name)
    cluster.await_whole()
    cluster.await_chains(cluster.are_whole)
    for client in cluster.clients():
        assert sorted(get(client, "domain", "item")["n"]) == ["1", "3"]
    with refused("NoSuchDomain", 400):
        get(n3, "other", "item")


def test_a_chain_begins_again_from_an_old_copy_by_order(tmp_path):
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        client = cluster.members["n3"].client(read_timeout=30)
        mixed = asking(cluster.members["n3"].client(), {"x-fader-collection-mode": "mixed"})
        mixed.create_domain(DomainName="domain")
        put(client, "domain", "item", n="1")
        eventual = asking(cluster.members["n3"].client(), {"x-fader-consistency": "eventual"})
        put(eventual, "domain", "early", n="1")
        assert cluster.members["n3"].stop() == 0
        cluster.await_roles(lambda roles: roles["n3"] == "out")
        data = cluster.folder / "n3" / "data"
        shutil.copytree(data, cluster.folder / "old")
        cluster.start("n3")
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        client = cluster.members["n3"].client(read_timeout=30)
        put(client, "domain", "item", n="2")
        restore = functools.partial(restoring, cluster)
        told = restore("1", "--member", "n3", "--accept-loss")
        assert told.returncode != 0 and "n3 runs" in told.stderr
        cluster.kill("n3")
        cluster.await_roles(lambda roles: roles["n3"] == "out")
        told = restore("1", "--member", "n3", "--accept-loss")
        assert told.returncode != 0 and "nothing has to be lost" in told.stderr
        cluster.start("n3")
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        # All is lost but the copy, and n3 is the last that served.
        for name in ["n1", "n2", "n3"]:
            cluster.kill(name)
            shutil.rmtree(cluster.folder / name / "data")
            if name != "n3":
                cluster.await_roles(lambda roles, name=name: roles[name] == "out")
                cluster.await_chains(lambda places, name=name: places.get(name) in (None, "out"))
        shutil.copytree(cluster.folder / "old", data)
        refused_one = cluster.new_member("n3", wait=False)
        assert refused_one.process.wait(60) == 1
        assert "an old copy" in refused_one.log() and "--accept-loss" in refused_one.log()
        for chain in ["0", "1"]:
            # No process runs that ends sessions, and none that can go on.
            assert restore(chain, "--member", "n3", "--yes").returncode != 0
            told = restore(chain, "--member", "n3", "--accept-loss")
            assert told.returncode == 0, told.stderr
            assert "will be lost for ever" in told.stdout and "in epoch" in told.stdout
            # Whose disk it is has not changed, though its number has.
            assert names_in(cluster.why(chain)) <= {"n1", "n2", "n3"}
        n3 = cluster.members["n3"] = cluster.new_member("n3", wait=False)
        for chain in ["0", "1"]:
            # It begins nothing by itself.
            why = cluster.await_why("all members that served are down", chain)
            assert names_in(why) <= {"n1", "n2", "n3"}
            while (told := restore(chain, "--member", "n3", "--yes")).returncode != 0:
                # n3 may have lost its session for a moment: it begins another one.
                waits = ["or its session is not over", "n3 does not run: start it first"]
                assert any(wait in told.stderr for wait in waits), told.stderr
        n3.await_listening()
        n3.await_told("goes back to what the member here has", times=2)
        client = n3.client(read_timeout=30)
        assert at_any([client], lambda sdb: get(sdb, "domain", "item")) == {"n": ["1"]}
        at_any([client], lambda sdb: put(sdb, "domain", "item", n="3"))
        eventual = asking(n3.client(read_timeout=30), {"x-fader-consistency": "eventual"})
        at_any([eventual], lambda sdb: put(sdb, "domain", "late", n="1"))
        for name in ["n1", "n2"]:
            cluster.start(name)
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        for client in cluster.clients():
            assert sorted(get(client, "domain", "item")["n"]) == ["1", "3"]
            assert get(client, "domain", "early") == {"n": ["1"]}
            assert get(client, "domain", "late") == {"n": ["1"]}
        _, lines = cluster.status()
        for chain in ["chain 0", "chain 1"]:
            assert any(line.startswith(f"{chain} went on with less") for line in lines), lines
