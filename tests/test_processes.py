"""Three processes and ZooKeeper: what was acknowledged outlives any, and service returns."""

import concurrent.futures
import contextlib
import functools
import itertools
import re
import shutil
import socket
import threading
import time
import urllib.request

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

import hung
import loads
import server as servers
from damage import falsify, flip_engine, flip_log
from processes import Member, Processes, at_any
from sdb_calls import asking, get, put, refused, select, told

NAMES = ["domain-1", "domain-2", "domain-3"]


@pytest.fixture
def cluster(request, tmp_path):
    with Processes(tmp_path, wiring=getattr(request, "param", "star")) as running:
        yield running


class Load(loads.Load):
    """A writer that notes what was acknowledged, by any member."""

    def __init__(self, cluster):
        super().__init__(self.write)
        self.cluster = cluster
        self.acknowledged = {}

    def write(self):
        serial = 0
        while not self.is_ending:
            clients = self.cluster.clients(read_timeout=5)
            silent = set()
            for client in clients * 20:
                if client in silent:
                    continue
                serial += 1
                item = f"item-{serial}"
                try:
                    put(client, "domain", item, n=str(serial))
                    with self.changed:
                        self.acknowledged[item] = str(serial)
                        self.changed.notify_all()
                except ReadTimeoutError:
                    # One that stands still is asked again in the next round, not at each turn.
                    silent.add(client)
                except (BotoCoreError, ClientError):
                    pass
                if self.is_ending:
                    return

    def await_more(self, count=20):
        goal = len(self.acknowledged) + count
        self.await_that(lambda: goal <= len(self.acknowledged), seconds=120)

    def begin(self):
        at_any(self.cluster.clients(), lambda sdb: sdb.create_domain(DomainName="domain"))

    def check(self):
        """All that was acknowledged is there, at each member."""
        with self.changed:
            acknowledged = dict(self.acknowledged)
        for client in self.cluster.clients():
            found = select(client, "select * from domain limit 2500")
            for item, value in acknowledged.items():
                assert found[item] == {"n": [value]}


def test_any_member_takes_everything(cluster):
    assert sorted(cluster.await_whole().values()) == ["head", "serving", "serving"]
    clients = cluster.clients()
    for number, writer in enumerate(clients * 3):
        domain = f"domain-{number}"
        writer.create_domain(DomainName=domain)
        put(writer, domain, "item", n=str(number))
        for client in clients:
            assert get(client, domain, "item") == {"n": [str(number)]}
    # At any node: a refusal goes on with its session too.
    for client in cluster.clients():
        session = asking(client, {"x-fader-session": ""})
        with refused("ConditionalCheckFailed", 409) as refusal:
            put(session, "domain-0", "item", n="x", replace=True,
                expected={"Name": "n", "Value": "never"})
        assert refusal.value.response["ResponseMetadata"]["HTTPHeaders"]["x-fader-session"]
    # A key that one member made is known to all, and so is its secret.
    for member in cluster.members.values():
        servers.fader("keys", "create", "--data", member.data, home=cluster.folder)
    for name, member in cluster.members.items():
        assert member.stop() == 0, member.log()
        # Who ends in order is out at once, and the others go on.
        if name != "n3":
            cluster.await_roles(lambda roles, name=name: roles[name] == "out")


@pytest.mark.drawn
@pytest.mark.parametrize("cluster", ["star", "chain"], indirect=True)
def test_a_killed_head_loses_nothing_and_comes_back(cluster):
    cluster.await_whole()
    with Load(cluster) as load:
        head = cluster.head()
        cluster.kill(head)
        cluster.await_roles(lambda roles: roles[head] == "out" and "head" in roles.values())
        load.await_more()
        cluster.start(head)
        cluster.await_whole()
        load.await_more()
    load.check()


def test_a_stopped_head_is_replaced_and_comes_back(cluster):
    cluster.await_whole()
    with Load(cluster) as load:
        head = cluster.head()
        cluster.members[head].stop_for_now()
        cluster.await_roles(lambda roles: roles[head] == "out" and "head" in roles.values())
        load.await_more()
        cluster.members[head].go_on()
        cluster.await_whole()
        load.await_more()
    load.check()


@pytest.mark.drawn
@pytest.mark.parametrize("cluster", ["star", "chain"], indirect=True)
def test_a_member_whose_disk_hangs_is_replaced_and_comes_back(cluster):
    """Its process lives and keeps its session; nothing but its own thread knows.
    It shows LEASE-3."""
    cluster.await_whole()
    with Load(cluster) as load:
        for of in ["head", "serving"]:
            roles = cluster.roles()[1]
            name = next(name for name, role in roles.items() if role == of)
            with hung.held(cluster.members[name].process.pid, "chain"):
                cluster.await_roles(lambda roles, name=name: roles[name] == "out")
                load.await_more()
                # The others may end its session a little before it does.
                cluster.members[name].await_told("did nothing for")
            cluster.await_whole()
            load.await_more()
    load.check()


@pytest.mark.drawn
@pytest.mark.parametrize("cluster", ["star", "chain"], indirect=True)
def test_without_zookeeper_only_what_needs_no_lease_goes_on(cluster):
    cluster.await_whole()
    mixed = asking(cluster.clients()[0], {"x-fader-collection-mode": "mixed"})
    mixed.create_domain(DomainName="mixed")
    epochs = {name: epochs_of(member) for name, member in cluster.members.items()}
    with Load(cluster) as load, concurrent.futures.ThreadPoolExecutor(32) as beside:
        cluster.zookeeper.kill()
        await_all_refused(beside, [
            lambda client=client, level=level, call=call:
                call(asking(client, {"x-fader-consistency": level}))
            for level, call in [
                ("strong", lambda sdb: get(sdb, "domain", "item-1")),
                ("eventual; r=2", lambda sdb: get(sdb, "mixed", "item", consistent=False)),
                ("eventual", lambda sdb: put(sdb, "mixed", "attached", a="1")),
                ("eventual; w=2", lambda sdb: put(sdb, "mixed", "attached", a="2")),
            ]
            for client in cluster.clients()
        ])
        # What every member confirms is committed, wherever it was asked for.
        load.await_more()
        for name in cluster.members:
            strong, barrier, sloppy, eventual = at_levels(cluster, name)
            put(strong, "mixed", f"condition-{name}", a="1")
            expected = {"Name": "a", "Value": "1"}
            put(strong, "mixed", f"condition-{name}", a="2", replace=True, expected=expected)
            with refused("ConditionalCheckFailed", 409):
                put(strong, "mixed", f"condition-{name}", a="3", replace=True, expected=expected)
            assert get(barrier, "mixed", f"condition-{name}") == {"a": ["2"]}
            reply = put(sloppy, "mixed", "item", a=name)
            assert told(reply)["x-fader-outcome"] == "detached"
            assert name in get(eventual, "mixed", "item", consistent=False)["a"]
        # Without one of them nothing is, and no member can be left out.
        cluster.kill("n2")
        await_all_refused(beside, [
            lambda strong=at_levels(cluster, name)[0], more=more, name=name:
                put(strong, "mixed", f"condition-{name}", b="1", **more)
            for name in ["n1", "n3"]
            for more in [{}, {"replace": True, "expected": {"Name": "a", "Value": "2"}}]
        ])
        count = len(load.acknowledged)
        for name in ["n1", "n3"]:
            _, _, sloppy, eventual = at_levels(cluster, name)
            assert name in get(eventual, "mixed", "item", consistent=False)["a"]
            reply = put(sloppy, "mixed", "item", a=f"{name} later")
            assert told(reply)["x-fader-outcome"] == "detached"
            assert epochs_of(cluster.members[name]) == epochs[name]
        assert len(load.acknowledged) == count
        cluster.zookeeper.start()
        cluster.await_roles(lambda roles: roles["n2"] == "out")
        load.await_more()
        cluster.start("n2")
        cluster.await_whole()
        # What was detached is settled, and the same for all.
        expected = {"a": sorted([*cluster.members, "n1 later", "n3 later"])}
        for name in cluster.members:
            strong, _, _, eventual = at_levels(cluster, name)
            await_equal(expected, lambda sdb=strong: get(sdb, "mixed", "item"))
            await_equal(expected, lambda sdb=eventual: get(sdb, "mixed", "item", consistent=False))
    load.check()


def at_levels(cluster, name):
    """Clients of one member."""
    return [
        asking(cluster.members[name].client(read_timeout=30), {"x-fader-consistency": level})
        for level in ["strong", "barrier", "eventual; sloppy", "eventual"]
    ]


def epochs_of(member):
    """The epochs that a process is in, by chain."""
    return re.findall(r'^fader_chain_epoch\{chain="\d+"\} \d+', metrics(member), re.M)


def await_equal(expected, call):
    end = time.monotonic() + 60
    while at_any([None], lambda _: call()) != expected:
        assert time.monotonic() < end, call()
        time.sleep(0.05)


def await_all_refused(beside, calls):
    """The same for many, each of which is refused after a while."""
    for waiting in [beside.submit(await_refused, call) for call in calls]:
        waiting.result()


def await_refused(call):
    """Waits until the lease is over: what needs one is refused then."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            call()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ServiceUnavailable"
            return
    raise RuntimeError("it is not refused")


def metrics(member):
    with urllib.request.urlopen(f"{member.url}/metrics", timeout=30) as page:
        return page.read().decode()


def is_whole(places):
    return sorted(places.values()) == ["head", "serving", "serving"]


def test_each_process_has_a_member_of_each_chain(tmp_path):
    with Processes(tmp_path) as cluster:
        cluster.await_whole()
        chains = cluster.await_chains(is_whole)
        assert sorted(chains) == ["chain 1", "chain 2", "chain 3", "chain 4"]
        heads = {name for places in chains.values() for name in places if places[name] == "head"}
        assert heads == {"n1", "n2", "n3"}
        page = metrics(cluster.members["n1"])
        assert 'fader_chain_epoch{chain="0"}' in page and 'fader_chain_epoch{chain="4"}' in page
        assert 'fader_peer_connected{peer="n2"} 1' in page
        # One process is lost, and with it a member of each chain, which go on.
        cluster.kill("n1")
        cluster.await_chains(
            lambda places: places["n1"] == "out" and sorted(places.values()).count("head") == 1
        )
        # The folder is as one that an earlier version wrote, which had one chain.
        data = cluster.folder / "n1" / "data"
        (data / "chains" / "0").rename(data / "member")
        (data / "node").unlink()
        cluster.start("n1")
        cluster.await_whole()
        cluster.await_chains(is_whole)
        assert sorted(folder.name for folder in (data / "chains").iterdir()) == list("01234")


def domains(client):
    return client.list_domains().get("DomainNames", [])


def test_domains_are_on_chains_and_asked_for_anywhere(cluster):
    """It shows ROUTE-3."""
    cluster.await_whole()
    cluster.await_chains(is_whole)
    before = commits(cluster)
    clients = cluster.clients()
    names = [f"domain-{number}" for number in range(8)]
    for number, name in enumerate(names):
        clients[number % 3].create_domain(DomainName=name)
        # Who is asked next may not have heard of it, and finds it.
        put(clients[(number + 1) % 3], name, "item", n=str(number))
        assert get(clients[(number + 2) % 3], name, "item") == {"n": [str(number)]}
    after = commits(cluster)
    assert all(before[chain] < after[chain] for chain in after), "each chain has some"
    assert all(domains(client) == names for client in clients)
    # A session goes from chain to chain.
    token = ""
    for number, name in enumerate(names):
        session = asking(cluster.clients()[number % 3], {"x-fader-session": token})
        reply = session.put_attributes(
            DomainName=name, ItemName="seen", Attributes=[{"Name": "n", "Value": name}]
        )
        token = reply["ResponseMetadata"]["HTTPHeaders"]["x-fader-session"]
    for number, name in enumerate(names):
        reading = asking(
            cluster.clients()[(number + 1) % 3],
            {"x-fader-session": token, "x-fader-consistency": "eventual"},
        )
        assert get(reading, name, "seen", consistent=False) == {"n": [name]}
    # A domain that went is gone for all; under its name another one begins, on another chain.
    mixed = asking(cluster.clients()[1], {"x-fader-collection-mode": "mixed"})
    for name in names[:4]:
        clients[0].delete_domain(DomainName=name)
        for client in clients:
            with refused("NoSuchDomain", 400):
                get(client, name, "item")
            assert name not in domains(client)
        mixed.create_domain(DomainName=name)
        # Created again as it is, and not otherwise.
        mixed.create_domain(DomainName=name)
        strong = asking(cluster.clients()[2], {"x-fader-collection-mode": "strong"})
        with refused("ConditionalCheckFailed", 409):
            strong.create_domain(DomainName=name)
        assert get(clients[2], name, "item") == {}
        eventual = asking(cluster.clients()[0], {"x-fader-consistency": "eventual"})
        put(eventual, name, "item", a="1")
        assert cluster.members["n3"].mode(name, "strong", "--wait") == f"{name}: strong\n"
        with refused("InvalidParameterCombination", 400):
            put(eventual, name, "item", a="2")
    # One process is lost: each domain has others.
    cluster.kill("n1")
    others = cluster.clients()[1:]
    for number, name in enumerate(names[4:], start=4):
        at_any(others, lambda client, name=name: put(client, name, "after", n="1"))
        for client in others:
            found = at_any([client], lambda client, name=name: get(client, name, "item"))
            assert found == {"n": [str(number)]}


def commits(cluster):
    """The last committed entry of each chain of data."""
    lines = metrics(cluster.members["n1"]).splitlines()
    found = [re.match(r'fader_chain_commit_index\{chain="(\d+)"\} (\d+)', line) for line in lines]
    return {match[1]: int(match[2]) for match in found if match and match[1] != "0"}


class ComeAndGo(loads.Load):
    """Domains come and go, each with a name of its own, while others list and use them."""

    def __init__(self, cluster):
        owners = (functools.partial(self.own, number) for number in range(2))
        lookers = (functools.partial(self.look, number) for number in range(2))
        super().__init__(*owners, *lookers)
        self.cluster = cluster
        self.clients = {}
        # What was begun of each name, and what acknowledged.
        self.known = {}
        self.seen = dict.fromkeys(["listed", "used", "not listed", "refused"], 0)
        self.wrong = []

    def client(self, number):
        """One of a member that runs, from where it listens now."""
        url = list(self.cluster.members.values())[number % 3].url
        if url not in self.clients:
            client = servers.client(url, read_timeout=5)
            self.clients[url] = asking(client, {"x-fader-consistency": "strong"})
        return self.clients[url]

    def own(self, number):
        for serial in itertools.count():
            name = f"own-{number}-{serial}"
            self.note(name, "creating")
            if self.is_done(number + serial, "create_domain", name):
                self.note(name, "created")
                time.sleep(0.5)
            self.note(name, "dropping")
            while not self.is_done(number + serial, "delete_domain", name):
                serial += 1
                if self.is_ending:
                    return
            self.note(name, "dropped")
            if self.is_ending:
                return

    def is_done(self, number, what, name):
        try:
            getattr(self.client(number), what)(DomainName=name)
        except (BotoCoreError, ClientError):
            return False
        return True

    def look(self, number):
        while not self.is_ending:
            number += 1
            before = self.known_state()
            try:
                listed = domains(self.client(number))
            except (BotoCoreError, ClientError):
                continue
            after = self.known_state()
            for name, known in before.items():
                if "created" in known and "dropping" not in after[name]:
                    self.judge("listed", name in listed, name)
                if {"created", "dropped"} <= known:
                    self.judge("not listed", name not in listed, name)
            there = [name for name in before if "dropped" not in before[name]]
            gone = [name for name in before if {"created", "dropped"} <= before[name]]
            for name in there + gone[-1:]:
                self.use(number, name, name in listed)

    def use(self, number, name, is_listed):
        before = self.known_state()[name]
        try:
            if number % 2:
                get(self.client(number), name, "item")
            else:
                put(self.client(number), name, "item", n=str(number))
        except BotoCoreError:
            return
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchDomain":
                return
            # It was there, so that only who drops it may have taken it away.
            if is_listed or "created" in before:
                self.judge("refused", "dropping" in self.known_state()[name], name)
        else:
            self.judge("used", not {"created", "dropped"} <= before, name)

    def known_state(self):
        with self.changed:
            return dict(self.known)

    def note(self, name, what):
        with self.changed:
            self.known[name] = self.known.get(name, frozenset()) | {what}

    def judge(self, what, is_right, name):
        with self.changed:
            self.seen[what] += 1
            if not is_right:
                self.wrong.append(f"{name}, {sorted(self.known[name])}: {what}")
            self.changed.notify_all()

    def await_more(self):
        goals = {what: count + 1 for what, count in self.seen.items()}
        reached = lambda: all(count <= self.seen[what] for what, count in goals.items())
        self.await_that(reached, seconds=120, what=f"{goals}")


def test_work_that_a_killed_process_left_is_finished(cluster):
    cluster.await_whole()
    cluster.await_chains(is_whole)
    is_ending = threading.Event()

    def come_and_go(number):
        while not is_ending.is_set():
            client = cluster.clients(read_timeout=5, retries={"max_attempts": 0})[number % 3]
            for name in NAMES:
                with contextlib.suppress(BotoCoreError, ClientError):
                    client.create_domain(DomainName=name)
                with contextlib.suppress(BotoCoreError, ClientError):
                    client.delete_domain(DomainName=name)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    # No client sees a domain half there meanwhile.
    try:
        with ComeAndGo(cluster) as others:
            for _ in range(3):
                for name in ["n1", "n2"]:
                    time.sleep(1)
                    cluster.kill(name)
                    cluster.start(name)
                    others.await_more()
    finally:
        is_ending.set()
        for thread in threads:
            thread.join()
    assert others.wrong == []
    cluster.await_whole()
    cluster.await_chains(is_whole)
    clients = cluster.clients()
    # What is listed is there, at each member, and nothing else is.
    for client in clients:
        listed = at_any([client], domains)
        for name in NAMES:
            if name in listed:
                client.domain_metadata(DomainName=name)
            else:
                with refused("NoSuchDomain", 400):
                    client.domain_metadata(DomainName=name)
    for name in NAMES:
        clients[0].create_domain(DomainName=name)
        put(clients[1], name, "item", n="1")
    for name in set(domains(clients[0])) - set(NAMES):
        clients[0].delete_domain(DomainName=name)
    assert all(domains(client) == NAMES for client in clients)
    for name in NAMES:
        assert get(clients[2], name, "item") == {"n": ["1"]}
        clients[2].delete_domain(DomainName=name)
    assert all(domains(client) == [] for client in clients)


def test_a_process_that_is_no_member_is_reported(cluster):
    cluster.await_whole()
    for code, why, flags in [
        ("not-found", "none of the cluster's members", {"--node": "n9"}),
        ("cluster-key-wrong", "the cluster key is not", {"--cluster-key": other_key(cluster)}),
        ("data-foreign", "that of n1, not of n2", {"--node": "n2"}),
        ("configuration-invalid", "set all, or none", {"--zookeeper": None}),
        ("not-found", "no cluster at /elsewhere", {"--zookeeper-path": "/elsewhere"}),
    ]:
        given = cluster.flags("n1")
        given = dict(zip(given[::2], given[1::2], strict=True)) | flags
        given["--peer-listen"] = "127.0.0.1:0"
        shutil.rmtree(cluster.folder / "copy", ignore_errors=True)
        folder = cluster.folder / "n1" / "data" / "chains"
        shutil.copytree(folder, cluster.folder / "copy" / "chains")
        refused = servers.fader(
            "serve", "--listen", "127.0.0.1:0", "--data", cluster.folder / "copy",
            *[text for pair in given.items() if pair[1] is not None for text in pair],
            home=cluster.folder, check=False,
        )
        assert refused.returncode == 1 and why in refused.stderr, (why, refused.stderr)
        assert f"\n  code: {code}\n" in refused.stderr, refused.stderr
    again = cluster.init(check=False)
    assert again.returncode == 1 and "already" in again.stderr
    assert "\n  code: already-exists\n" in again.stderr


def test_a_client_at_the_peer_port_is_refused_and_logged_once(cluster):
    cluster.await_whole()
    host, port = cluster.addresses["n1"].rsplit(":", 1)
    begin = b"FADPEER\x01"
    attacks = {
        "it does not speak the protocol": [b"GET / HTTP/1.1\r\n\r\n", b"FADPEER\x02" + bytes(200)],
        "longer than allowed": [begin + b"\xff\xff" + bytes(range(256)) * 256],
        "the connection ended within a frame": [begin, begin + b"\x70\x00" + bytes(50)],
        "its cluster key is another one": [
            begin + b"\x70\x00" + bytes(112), begin + b"\x70\x00" + bytes(range(112)),
        ],
    }
    before = cluster.members["n1"].log().splitlines()
    for sent in [text for texts in attacks.values() for text in texts] * 5:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as attack:
            attack.settimeout(30)
            attack.sendall(sent)
            attack.shutdown(socket.SHUT_WR)
            assert attack.recv(1) == b"", "nothing is answered"
    log = cluster.members["n1"].log().splitlines()[len(before):]
    for reason in attacks:
        lines = [line for line in log if "no connection between nodes" in line and reason in line]
        assert len(lines) == 1, (reason, cluster.members["n1"].log())
    # No client was kept out, and nothing served otherwise.
    assert cluster.are_whole(cluster.roles()[1])
    assert 'fader_peer_connected{peer="n2"} 1' in metrics(cluster.members["n1"])
    at_any(cluster.clients(), lambda sdb: sdb.create_domain(DomainName="domain"))
    for number, client in enumerate(cluster.clients()):
        put(client, "domain", "item", n=str(number), replace=True)
        assert get(client, "domain", "item") == {"n": [str(number)]}


def other_key(cluster):
    path = cluster.folder / "other.key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    return path


def test_an_old_copy_of_a_members_folder_is_told(cluster):
    cluster.await_whole()
    cluster.kill("n3")
    data = cluster.folder / "n3" / "data"
    shutil.copytree(data, cluster.folder / "old", ignore=shutil.ignore_patterns("*.sock"))
    cluster.start("n3")
    cluster.await_whole()
    cluster.kill("n3")
    cluster.await_roles(lambda roles: roles["n3"] == "out")
    shutil.rmtree(data)
    (cluster.folder / "old").rename(data)
    member = Member(cluster, "n3", wait=False)
    assert member.process.wait(60) == 1
    assert "an old copy" in member.log()
    # With an empty folder it is a new disk, and welcome.
    shutil.rmtree(data)
    cluster.start("n3")
    cluster.await_whole()


def test_an_old_copy_of_one_chains_folder_has_none_begin(cluster):
    """It shows PROC-3."""
    cluster.await_whole()
    before = cluster.await_chains(is_whole)
    for name in ("n1", "n2"):
        assert cluster.members[name].stop() == 0
        cluster.await_roles(lambda roles, name=name: roles[name] == "out")
    chains = cluster.folder / "n3" / "data" / "chains"
    cluster.members["n3"].stop_for_now()
    shutil.copytree(chains / "4", cluster.folder / "old")
    cluster.members["n3"].go_on()
    client = cluster.members["n3"].client(read_timeout=30)
    # One domain after the other is on each of the chains.
    for number in range(len(before)):
        client.create_domain(DomainName=f"domain-{number}")
    assert cluster.members["n3"].stop() == 0
    (chains / "4").rename(cluster.folder / "right")
    (cluster.folder / "old").rename(chains / "4")
    waiting = cluster.members["n1"] = Member(cluster, "n1", wait=False)
    while "does not serve" not in waiting.log().splitlines()[-1]:
        time.sleep(0.1)
    epoch, _ = cluster.roles()
    for _ in range(3):
        member = Member(cluster, "n3", wait=False)
        assert member.process.wait(60) == 1
    refused = [line for line in member.log().splitlines() if "an old copy" in line]
    assert len(refused) == 3, "once for each start"
    assert all(f"{chains / '4'}: " in line for line in refused)
    # n1 would follow n3 in each chain of which n3 had begun a life.
    assert cluster.roles()[0] == epoch, cluster.log()
    shutil.rmtree(chains / "4")
    (cluster.folder / "right").rename(chains / "4")
    cluster.start("n3")
    waiting.await_listening()
    assert at_any([waiting.client()], domains) == [
        f"domain-{number}" for number in range(len(before))
    ]


@pytest.mark.drawn
@pytest.mark.parametrize("damage", [flip_log, flip_engine])
def test_a_damaged_member_joins_with_an_empty_folder(cluster, damage):
    with Load(cluster) as load:
        load.await_more(50)
    cluster.await_chains(is_whole)
    assert cluster.members["n2"].stop() == 0, cluster.log()
    cluster.await_roles(lambda roles: roles["n2"] == "out")
    chains = cluster.folder / "n2" / "data" / "chains"
    damage(chains / "0")
    damage(chains / "1")
    cluster.start("n2")
    cluster.await_whole()
    cluster.await_chains(is_whole)
    load.check()
    while not all((chains / f"{chain}.damaged-1").is_dir() for chain in (0, 1)):
        # What is damaged shows when it is read.
        load.check()
        cluster.await_whole()
        cluster.await_chains(is_whole)
    assert (chains / "2").is_dir() and not (chains / "2.damaged-1").exists()
    assert cluster.members["n2"].process.poll() is None
    assert "n2 joins with an empty folder" in cluster.log()
    cluster.await_why("waits for nothing", "1", member=cluster.members["n2"])
    # Its disks are good for everything again.
    for name in ("n1", "n3"):
        assert cluster.members[name].stop() == 0, cluster.log()
        cluster.await_roles(lambda roles, name=name: roles[name] == "out")
    cluster.kill("n2")
    cluster.start("n2")
    found = select(cluster.members["n2"].client(), "select * from domain limit 2500")
    assert load.acknowledged.keys() <= found.keys()


def test_a_member_whose_data_differs_is_found_by_comparison_and_made_equal(tmp_path):
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        n3 = cluster.members["n3"]
        sdb = n3.client()
        sdb.create_domain(DomainName="domain")
        put(sdb, "domain", "item", n="a value that is right")
        # So much that it takes a while to be made equal.
        values = [str(number) * 1000 for number in range(10)]
        for number in range(300):
            put(sdb, "domain", f"item-{number}", n=values)
        cluster.kill("n3")
        cluster.await_roles(lambda roles: roles["n3"] == "out")
        folder = n3.data / "chains" / "1"
        assert falsify(folder, b"a value that is right", b"a value that is wrong") == 1
        n3 = cluster.members["n3"] = Member(cluster, "n3", more={"FADER_TRANSFER_MB": "1"})
        # No checksum says so, and it joins as any other; the others say that it differs.
        why = cluster.await_why("for n3, whose data was found to differ from the others'", "1")
        assert "which joins" in why
        assert cluster.chains()["chain 1"]["n3"] == "joining"
        logs = [member.log() for member in cluster.members.values()]
        assert any("n3 differs from the others: it is filled anew" in log for log in logs), logs
        differing = re.compile(r'fader_chain_digest_mismatches_total\{chain="1"\} [1-9]')
        assert any(differing.search(metrics(member)) for member in cluster.members.values())
        assert "damaged" not in n3.log()
        cluster.await_chains(cluster.are_whole)
        cluster.await_why("waits for nothing", "1")
        # What it has itself is right: it shows it with no member to ask.
        for name in ("n1", "n2"):
            assert cluster.members[name].stop() == 0, cluster.log()
            cluster.await_roles(lambda roles, name=name: roles[name] == "out")
        right = {"n": ["a value that is right"]}
        assert at_any([n3.client()], lambda sdb: get(sdb, "domain", "item")) == right


def test_a_damaged_member_that_the_chain_counts_on_waits(cluster):
    cluster.await_whole()
    for name in ("n1", "n3"):
        assert cluster.members[name].stop() == 0
        cluster.await_roles(lambda roles, name=name: roles[name] == "out")
    assert cluster.members["n2"].stop() == 0
    folder = cluster.folder / "n2" / "data" / "chains" / "0"
    flip_log(folder)
    n2 = cluster.members["n2"] = Member(cluster, "n2", wait=False)
    n2.await_told("n2 is damaged: the log is damaged")
    while not (n2.data / "control.sock").exists():
        time.sleep(0.1)
    why = cluster.await_why("whose folder is damaged", "0", member=n2)
    assert "all members that served are down" in why and "started on its own disk" in why
    assert n2.process.poll() is None
    assert folder.is_dir() and not folder.with_name("0.damaged-1").exists()


def test_an_old_copy_of_the_same_epoch_restarts_nothing(cluster):
    cluster.await_whole()
    client = cluster.members["n3"].client(read_timeout=30)
    at_any([client], lambda sdb: sdb.create_domain(DomainName="domain"))
    for name in ("n1", "n2"):
        assert cluster.members[name].stop() == 0
        cluster.await_roles(lambda roles, name=name: roles[name] == "out")
    at_any([client], lambda sdb: put(sdb, "domain", "early", n="1"))
    # From here on it is alone, in one epoch: who is last in it may begin again alone.
    data, old = cluster.folder / "n3" / "data", cluster.folder / "old"
    before = None
    while before != cluster.roles():
        # Its session ended if the copy took long: then this was another epoch.
        shutil.rmtree(old, ignore_errors=True)
        cluster.await_roles(lambda roles: roles["n3"] == "head")
        before = cluster.roles()
        cluster.members["n3"].stop_for_now()
        shutil.copytree(data, old, ignore=shutil.ignore_patterns("*.sock"))
        cluster.members["n3"].go_on()
        at_any([client], lambda sdb: put(sdb, "domain", "late", n="2"))
    assert cluster.members["n3"].stop() == 0
    chains = cluster.chains()
    data.rename(cluster.folder / "right")
    old.rename(data)
    member = Member(cluster, "n3", wait=False)
    assert member.process.wait(60) == 1
    (line,) = (line for line in member.log().splitlines() if "an old copy" in line)
    assert "but its disk had entry" in line
    # The others do not begin again without it, and nothing is served.
    waiting = cluster.members["n1"] = Member(cluster, "n1", wait=False)
    while "member of the system chain does not serve" not in waiting.log():
        assert waiting.process.poll() is None, waiting.log()
        time.sleep(0.1)
    assert "all members that served are down" in waiting.log()
    assert cluster.chains() == chains
    shutil.rmtree(data)
    (cluster.folder / "right").rename(data)
    cluster.start("n3")
    client = cluster.members["n3"].client()
    found = at_any([client], lambda sdb: select(sdb, "select * from domain"))
    assert found == {"early": {"n": ["1"]}, "late": {"n": ["2"]}}
    waiting.await_listening()
    cluster.start("n2")
    cluster.await_whole()
