"""Members of chains move between nodes while clients write: nothing acknowledged is lost."""

import contextlib
import subprocess
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import loads
import server as servers
from damage import flip_log
from processes import Processes, at_any
from sdb_calls import asking, get, put, select

DOMAINS = [f"domain-{number}" for number in range(8)]
MIXED = {"x-fader-collection-mode": "mixed"}
EVENTUAL = {"x-fader-consistency": "eventual"}
ORDER_SECONDS_MAX = 400
SAID_SECONDS_MAX = 60


class Load(loads.Load):
    """Strong and eventual writes at all of some members; what is acknowledged is noted, and what is
    refused otherwise than for now."""

    def __init__(self, cluster, names):
        super().__init__(self.write)
        self.cluster = cluster
        self.names = list(names)
        self.acknowledged = {domain: {} for domain in DOMAINS}
        self.refused = []
        self.count = 0

    def write(self):
        serial = 0
        while not self.is_ending:
            for name in list(self.names):
                strong = self.cluster.members[name].client(read_timeout=30)
                for client, kind in [(strong, "s"), (asking(strong, EVENTUAL), "e")]:
                    for domain in DOMAINS:
                        serial += 1
                        self.put(client, domain, f"{kind}-{serial}", str(serial))
                        # Members that move need the cores too.
                        time.sleep(0.005)

    def put(self, client, domain, item, value):
        try:
            put(client, domain, item, n=value)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                self.refused.append(error)
            return
        except BotoCoreError as error:
            self.refused.append(error)
            return
        with self.changed:
            self.acknowledged[domain][item] = value
            self.count += 1
            self.changed.notify_all()

    def await_more(self, count=32):
        goal = self.count + count
        self.await_that(lambda: goal <= self.count, seconds=240)

    def check(self):
        """All is there, once eventual writes are settled."""
        assert self.refused == []
        client = self.cluster.members[self.names[0]].client(read_timeout=30)
        for domain, items in self.acknowledged.items():
            end = time.monotonic() + 60
            while True:
                found = select(client, f"select * from `{domain}` limit 2500")
                lacking = {item for item in items if found.get(item) != {"n": [items[item]]}}
                if not lacking:
                    break
                assert time.monotonic() < end, f"{domain}: {lacking}\n{self.cluster.log()}"
                time.sleep(0.2)


def order(cluster, *words):
    """Begins a `fader cluster` order."""
    return subprocess.Popen(
        [servers.BINARY, "cluster", *words, "--zookeeper", cluster.zookeeper.hosts],
        env=servers.environment(cluster.folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def await_said(process, words):
    """Reads what it says until it has said this."""
    said = []
    with servers.killed_after(SAID_SECONDS_MAX, process):
        for line in process.stderr:
            said.append(line)
            if words in line:
                return
    raise AssertionError(f"not said: {words!r}, but {said}")


def done(cluster, process):
    try:
        out, err = process.communicate(timeout=ORDER_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        raise AssertionError(f"{err}\n{cluster.chains()}\n{cluster.log()}") from None
    assert process.returncode == 0, err
    return out


def refusal(cluster, *words):
    process = order(cluster, *words)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    return err.split("\n  code: ")[0].removeprefix("error: ").strip()


def begin(cluster, name):
    """Starts a node that the cluster was not made with."""
    cluster.addresses[name] = cluster.peer_address(name)
    cluster.start(name)


def await_placed(cluster, placed):
    """Waits until each chain has three members, all serving, and the nodes so many in all."""

    def are_so():
        counts = {}
        for places in cluster.chains().values():
            if sorted(places.values()) != ["head", "serving", "serving"]:
                return False
            for name in places:
                counts[name] = counts.get(name, 0) + 1
        return counts == placed

    end = time.monotonic() + ORDER_SECONDS_MAX
    while not are_so():
        assert time.monotonic() < end, f"{cluster.chains()}\n{cluster.log()}"
        time.sleep(0.2)


def folders(cluster, name):
    chains = cluster.folder / name / "data" / "chains"
    return sorted(folder.name for folder in chains.iterdir())


def await_no_folder(cluster, name):
    """A folder without a member is deleted soon."""
    end = time.monotonic() + servers.START_SECONDS_MAX
    while left := folders(cluster, name):
        assert time.monotonic() < end, left
        time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path):
    with Processes(tmp_path) as running:
        running.await_whole()
        running.await_chains(lambda places: "out" not in places.values())
        while "version 2" in running.status()[0][0]:
            time.sleep(0.1)
        yield running


def test_nodes_come_and_go_while_clients_write(cluster):
    """It shows FOLDERS-1, FOLDERS-2 and COORD-6."""
    sdb = asking(cluster.clients()[0], MIXED)
    for domain in DOMAINS:
        sdb.create_domain(DomainName=domain)
    assert "chains have 3 members" in refusal(cluster, "decommission", "n1")
    assert refusal(cluster, "decommission", "n9") == "n9 is no node of the cluster"
    assert "is no chain" in refusal(cluster, "move", "0", "n1", "n2")
    assert refusal(cluster, "add", "n1") == "n1 is a node of the cluster already"
    with Load(cluster, ["n1", "n2", "n3"]) as load:
        done(cluster, order(cluster, "add", "n4"))
        begin(cluster, "n4")
        await_placed(cluster, {"n1": 3, "n2": 3, "n3": 3, "n4": 3})
        load.names = ["n2", "n3", "n4"]
        load.await_more()
        replacing = order(cluster, "replace", "n1", "n5")
        while "n5" not in cluster.roles()[1]:
            time.sleep(0.1)
        begin(cluster, "n5")
        assert done(cluster, replacing) == "n1 holds nothing: it can be stopped\n"
        await_no_folder(cluster, "n1")
        assert cluster.members["n1"].stop() == 0
        await_placed(cluster, {"n2": 3, "n3": 3, "n4": 3, "n5": 3})
        load.names = ["n3", "n4", "n5"]
        load.await_more()
        drained = done(cluster, order(cluster, "decommission", "n2"))
        assert drained == "n2 holds nothing: it can be stopped\n"
        assert cluster.members["n2"].stop() == 0
        added = done(cluster, order(cluster, "add-chains", "2"))
        assert added == "the cluster has 6 chains for domains\n"
        await_placed(cluster, {"n3": 6, "n4": 6, "n5": 6})
        load.await_more()
    assert sorted(cluster.roles()[1]) == ["n3", "n4", "n5"]
    load.check()
    # New domains are on the new chains as well, and any node finds them.
    clients = [cluster.members[name].client() for name in ["n3", "n4", "n5"]]
    for number in range(12):
        at_any(clients, lambda it, number=number: it.create_domain(DomainName=f"new-{number}"))
        put(clients[number % 3], f"new-{number}", "item", n="1")
        assert get(clients[(number + 1) % 3], f"new-{number}", "item") == {"n": ["1"]}
    # Who was drained is none of the cluster's any more.
    with pytest.raises(RuntimeError, match="none of the cluster's members"):
        cluster.start("n1")


def test_an_order_is_waited_for_while_zookeeper_is_away(cluster):
    done(cluster, order(cluster, "add", "n4"))
    draining = order(cluster, "decommission", "n1")
    await_said(draining, ", but n4 does not run after")
    cluster.zookeeper.kill()
    await_said(draining, "waits for ZooKeeper: ")
    cluster.zookeeper.start()
    await_said(draining, ", but n4 does not run after")
    begin(cluster, "n4")
    assert done(cluster, draining) == "n1 holds nothing: it can be stopped\n"
    await_placed(cluster, {"n2": 4, "n3": 4, "n4": 4})


def test_a_node_that_is_lost_is_given_up(cluster):
    done(cluster, order(cluster, "add", "n4"))
    begin(cluster, "n4")
    await_placed(cluster, {"n1": 3, "n2": 3, "n3": 3, "n4": 3})
    assert "runs, or its session" in refusal(cluster, "decommission", "n1", "--lost")
    cluster.kill("n1")
    cluster.await_roles(lambda roles: roles["n1"] == "out")
    lost = done(cluster, order(cluster, "decommission", "n1", "--lost"))
    assert lost.startswith("n1 holds nothing but what is given up, on ")
    await_placed(cluster, {"n2": 4, "n3": 4, "n4": 4})
    # A member is moved by hand; nothing moves it back.
    with contextlib.closing(cluster.members["n2"].client()) as sdb:
        at_any([sdb], lambda it: it.create_domain(DomainName="domain"))
    done(cluster, order(cluster, "add", "n5"))
    begin(cluster, "n5")
    await_placed(cluster, {"n2": 3, "n3": 3, "n4": 3, "n5": 3})
    chain, places = next((c, p) for c, p in cluster.chains().items() if "n5" not in p)
    number, giving = chain.split()[1], next(iter(places))
    moved = done(cluster, order(cluster, "move", number, giving, "n5"))
    assert moved == f"chain {number} has moved from {giving} to n5\n"
    assert "n5" in cluster.chains()[chain] and giving not in cluster.chains()[chain]


def test_a_drained_node_whose_folder_was_damaged_is_told_of_and_given_up(cluster):
    sdb = asking(cluster.clients()[0], MIXED)
    for domain in DOMAINS:
        sdb.create_domain(DomainName=domain)
    done(cluster, order(cluster, "add", "n4"))
    begin(cluster, "n4")
    await_placed(cluster, {"n1": 3, "n2": 3, "n3": 3, "n4": 3})
    chain = next(chain for chain, places in cluster.chains().items() if "n1" in places)
    number = chain.split()[1]
    with Load(cluster, ["n2", "n3", "n4"]) as load:
        load.await_more()
        cluster.kill("n1")
        cluster.await_roles(lambda roles: roles["n1"] == "out")
        flip_log(cluster.folder / "n1" / "data" / "chains" / number)
        cluster.start("n1")
        # It joins with an empty folder, and serves; what it had before is waited for.
        await_placed(cluster, {"n1": 3, "n2": 3, "n3": 3, "n4": 3})
        assert f"{number}.damaged-1" in folders(cluster, "n1")
        assert "leaves" not in cluster.why(number)
        draining = order(cluster, "decommission", "n1")
        for member in [None, cluster.members["n2"]]:
            why = cluster.await_why("in a folder that no process has", number, member=member)
            assert "`fader cluster decommission n1 --lost`" in why
        # So does the order, which waits.
        waits = f"waits for n1, which leaves, to hand off its writes of {chain}, in a folder"
        await_said(draining, waits)
        given_up = done(cluster, order(cluster, "decommission", "n1", "--lost"))
        assert given_up == "n1 holds nothing but what is given up, on 1 disks: it can be stopped\n"
        assert done(cluster, draining) == "n1 holds nothing: it can be stopped\n"
        assert cluster.members["n1"].stop() == 0
        await_placed(cluster, {"n2": 4, "n3": 4, "n4": 4})
        assert cluster.await_why("waits for nothing", number)
    load.check()


@pytest.mark.drawn
@pytest.mark.parametrize("wiring", ["star", "chain"])
def test_heads_and_tails_come_back_to_their_zones(tmp_path, wiring):
    zones = {"n1": "east", "n2": "north", "n3": "west"}
    flags = ["--chains", "2", "--head-zone", "east", "--tail-zone", "west"]
    with Processes(tmp_path, wiring=wiring, flags=flags, zones=zones) as cluster:
        at_home = lambda places: list(places.items()) == [
            ("n1", "head"), ("n2", "serving"), ("n3", "serving"),
        ]
        cluster.await_whole()
        cluster.await_chains(at_home)
        client = cluster.members["n2"].client()
        for domain in DOMAINS:
            at_any([client], lambda sdb, domain=domain: asking(sdb, MIXED).create_domain(
                DomainName=domain))
        with Load(cluster, ["n2"]) as load:
            for name in ["n1", "n3"]:
                cluster.kill(name)
                cluster.await_chains(lambda places, name=name: places.get(name) in (None, "out"))
                load.await_more()
                cluster.start(name)
                # It is filled, serves behind the others, and has its place again a while later.
                cluster.await_chains(at_home)
                load.await_more()
        load.check()
