"""A cluster in one process: what was acknowledged outlives members, and they come back."""

import concurrent.futures
import contextlib
import functools
import pathlib
import threading
import time
import urllib.request

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import loads
from damage import flip, flip_engine, flip_log
from sdb_calls import Following, asking, get, put, select
from server import Cluster, Server

WRITERS = 3


def is_whole(roles):
    return sorted(roles.values()) == ["head", "serving", "serving"]


def head_of(roles):
    return next(name for name, role in roles.items() if role == "head")


def at(level, sdb):
    """The client, with all its requests at this level."""
    return asking(sdb, {"x-fader-consistency": level}) if level else sdb


class Load(loads.Load):
    """Writers that note what was acknowledged, and how often."""

    def __init__(self, cluster, level=None):
        super().__init__(*(functools.partial(self.write, number) for number in range(WRITERS)))
        self.cluster = cluster
        self.level = level
        self.acknowledged = {}

    def write(self, number):
        sdb = at(self.level, self.cluster.client(read_timeout=30))
        serial = 0
        while not self.is_ending:
            serial += 1
            item = f"{number}-{serial}"
            with contextlib.suppress(BotoCoreError, ClientError):
                put(sdb, "domain", item, n=str(serial))
                with self.changed:
                    self.acknowledged[item] = str(serial)
                    self.changed.notify_all()

    def await_more(self, count=20):
        """Waits until the service has acknowledged some more."""
        goal = len(self.acknowledged) + count
        self.await_that(lambda: goal <= len(self.acknowledged), seconds=60)

    def begin(self):
        self.cluster.client().create_domain(DomainName="domain")
        if self.level:
            assert self.cluster.mode("domain", "mixed") == "domain: mixed\n"

    def check(self, sdb):
        """All that was acknowledged is there, at any member."""
        for _ in range(3):
            with self.changed:
                acknowledged = dict(self.acknowledged)
            found = select(sdb, "select * from domain limit 2500")
            for item, value in acknowledged.items():
                assert found[item] == {"n": [value]}


@pytest.mark.parametrize("wiring", ["star", "chain"])
def test_three_members_are_one_service(tmp_path, wiring):
    with Cluster(tmp_path, "--wiring", wiring) as cluster:
        epoch, roles = cluster.roles()
        assert 1 <= epoch and is_whole(roles)
        sdb = cluster.client()
        sdb.create_domain(DomainName="domain")
        for number in range(30):
            put(sdb, "domain", "item", n=str(number), replace=True)
            # Each member that answers has the newest value.
            for _ in range(3):
                assert get(sdb, "domain", "item") == {"n": [str(number)]}
        with pytest.raises(ClientError) as refused:
            sdb.put_attributes(
                DomainName="domain",
                ItemName="item",
                Attributes=[{"Name": "n", "Value": "x", "Replace": True}],
                Expected={"Name": "n", "Value": "never"},
            )
        assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailed"
        assert cluster.stop() == 0, cluster.log()
    assert "epoch 1: n1 head, n2 serving, n3 serving" in cluster.log()


@pytest.mark.parametrize(("wiring", "victim"), [("star", 0), ("star", 2), ("chain", 1)])
def test_a_killed_member_loses_nothing_and_comes_back(tmp_path, wiring, victim):
    with Cluster(tmp_path, "--wiring", wiring) as cluster:
        _, roles = cluster.roles()
        victim = f"n{victim + 1}"
        with Load(cluster) as load:
            cluster.order("kill", victim)
            cluster.await_roles(lambda roles: roles[victim] == "out")
            load.await_more()
            cluster.order("restart", victim)
            cluster.await_roles(is_whole)
            load.await_more()
        load.check(cluster.client())
        # The one that came back holds everything: it alone is left.
        for other in roles:
            if other != victim:
                cluster.order("kill", other)
                cluster.await_roles(lambda roles, other=other: roles[other] == "out")
        assert head_of(cluster.roles()[1]) == victim
        load.check(cluster.client(read_timeout=30))
        assert cluster.stop() == 0, cluster.log()


def test_a_paused_head_and_a_cut_off_one_serve_nothing_old(tmp_path):
    with Cluster(tmp_path) as cluster:
        for order, back in [(pause, None), (cut_off, ["heal"])]:
            with Load(cluster) as load:
                old = head_of(cluster.roles()[1])
                order(cluster, old)
                cluster.await_roles(lambda roles, old=old: head_of(roles) != old)
                load.await_more()
                load.check(cluster.client(read_timeout=30))
                if back:
                    cluster.order(*back)
                cluster.await_roles(is_whole)
                load.await_more()
            load.check(cluster.client())
        assert cluster.stop() == 0, cluster.log()


def pause(cluster, member):
    cluster.order("pause", member, "--for", "5s")


def cut_off(cluster, member):
    others = ",".join(name for name in ("n1", "n2", "n3") if name != member)
    cluster.order("partition", f"{others}/{member}")


def create_mixed(cluster, domain):
    nature = {"x-fader-collection-mode": "mixed"}
    asking(cluster.client(), nature).create_domain(DomainName=domain)


def follower(cluster, level, **settings):
    """A client with a session, at one level."""
    return Following(asking(cluster.client(**settings), {"x-fader-consistency": level}))


def test_a_session_is_followed_where_members_lag(tmp_path):
    with Cluster(tmp_path) as cluster:
        create_mixed(cluster, "carts")
        unaware = asking(cluster.client(), {"x-fader-consistency": "eventual"})
        showed_old = False
        for attempt in range(30):
            item = f"i{attempt}"
            writer, reader = (follower(cluster, "eventual", read_timeout=30) for _ in range(2))
            epoch, _ = cluster.roles()
            cluster.order("partition", "n1/n2/n3")
            with contextlib.suppress(ClientError):
                put(writer.sdb, "carts", item, n="1")
                without = [get(unaware, "carts", item, consistent=False) for _ in range(6)]
                own = [get(writer.sdb, "carts", item, consistent=False) for _ in range(3)]
                # Monotonic reads: a client that has been shown it is shown it by every other
                # member.
                seen = [get(reader.sdb, "carts", item, consistent=False) for _ in range(6)]
                # A member that was given up meanwhile took with it what it alone had.
                if cluster.roles()[0] == epoch:
                    showed_old = {} in without
                    assert own == [{"n": ["1"]}] * 3
                    assert seen == sorted(seen, key=len) and seen[-1] == {"n": ["1"]}
            cluster.order("heal")
            cluster.await_roles(is_whole)
            if showed_old:
                break
        assert showed_old, "without a token, who lags shows what it has"
        assert cluster.stop() == 0, cluster.log()


@pytest.mark.parametrize("victim", ["n1", "n3"])
def test_a_session_outlives_a_member(tmp_path, victim):
    with Cluster(tmp_path) as cluster:
        create_mixed(cluster, "carts")
        session = follower(cluster, "eventual; w=2", read_timeout=30)
        strong = follower(cluster, "strong", read_timeout=30)
        for number in range(10):
            put(session.sdb, "carts", "i", n=str(number))
        cluster.order("kill", victim)
        expected = {"n": [str(number) for number in range(10)]}
        for _ in range(3):
            assert get(session.sdb, "carts", "i", consistent=False) == expected
        strong.token = session.token
        assert get(strong.sdb, "carts", "i") == expected
        assert cluster.stop() == 0, cluster.log()


def metrics(cluster):
    with urllib.request.urlopen(f"{cluster.url}/metrics", timeout=30) as page:
        lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def await_metric(cluster, name, is_expected):
    end = time.monotonic() + 60
    while not is_expected(metrics(cluster).get(name, 0)):
        assert time.monotonic() < end, metrics(cluster)
        time.sleep(0.02)


def test_replication_is_counted(tmp_path):
    with Cluster(tmp_path) as cluster:
        create_mixed(cluster, "carts")
        eventual = at("eventual; w=2", cluster.client(read_timeout=30))
        for number in range(10):
            put(eventual, "carts", f"i{number}", n="1")
        await_metric(cluster, 'fader_chain_unsettled_writes{chain="0"}', lambda count: count == 0)
        counted = metrics(cluster)
        # At each of the two or three members that held it.
        assert 20 <= counted['fader_chain_settled_total{chain="0"}'] <= 30
        assert 0 < counted['fader_chain_promotion_lag_seconds_total{chain="0"}']
        assert counted['fader_chain_superseded_total{chain="0"}'] == 0
        assert counted['fader_chain_version_queries_total{chain="0"}'] == 0
        assert cluster.stop() == 0, cluster.log()


def test_collisions_and_requests_are_counted(tmp_path):
    with Cluster(tmp_path, "--delay", "100ms") as cluster:
        create_mixed(cluster, "carts")
        eventual = at("eventual", cluster.client(read_timeout=30))
        strong = at("strong", cluster.client(read_timeout=30))
        # One member after the other takes it; what the head takes is settled before what is on its
        # way there, and older.
        repeat_until(cluster, 'fader_chain_superseded_total{chain="0"}', lambda number: put(
            eventual, "carts", "i", n=str(number), replace=True
        ))
        # The head acknowledges before the others know that it is committed: they ask it.
        def write_and_read(number):
            put(strong, "carts", "j", n=str(number), replace=True)
            for _ in range(3):
                assert get(strong, "carts", "j") == {"n": [str(number)]}

        repeat_until(cluster, 'fader_chain_version_queries_total{chain="0"}', write_and_read)
        counted = metrics(cluster)
        assert 0 < counted['fader_chain_dirty_reads_total{chain="0"}']
        # While something is written, members are behind, and the head tells which.
        with writing(strong):
            for what in ["entries", "seconds"]:
                await_any_metric(cluster, f'fader_member_lag_{what}{{chain="0"')
        # What was on its way for as long is told so. A member that began again counts from 0.
        repeat_until(cluster, 'fader_chain_settled_total{chain="0"}', lambda number: put(
            eventual, "carts", "l", n=str(number), replace=True
        ))
        await_metric(cluster, 'fader_chain_unsettled_writes{chain="0"}', lambda count: count == 0)
        counted = metrics(cluster)
        settled = counted['fader_chain_settled_total{chain="0"}']
        assert 50 < counted['fader_chain_promotion_lag_seconds_total{chain="0"}'] * 1000 / settled
        assert cluster.stop() == 0, cluster.log()


@contextlib.contextmanager
def writing(sdb):
    """Something is written all the time."""
    is_ending = threading.Event()

    def write():
        number = 0
        while not is_ending.is_set():
            number += 1
            put(sdb, "carts", "k", n=str(number), replace=True)

    with concurrent.futures.ThreadPoolExecutor() as beside:
        writer = beside.submit(write)
        try:
            yield
        finally:
            is_ending.set()
        writer.result()


def await_any_metric(cluster, prefix):
    """Waits until one of those whose names begin so is not 0."""
    end = time.monotonic() + 60
    while not any(value for name, value in metrics(cluster).items() if name.startswith(prefix)):
        assert time.monotonic() < end, metrics(cluster)
        time.sleep(0.02)


def repeat_until(cluster, name, call):
    """Does it, with a number, until that is counted."""
    end = time.monotonic() + 60
    number = 0
    while metrics(cluster).get(name, 0) == 0:
        assert time.monotonic() < end, metrics(cluster)
        number += 1
        call(number)


def await_mode(cluster, words):
    end = time.monotonic() + 60
    while words not in cluster.mode("domain"):
        assert time.monotonic() < end, cluster.mode("domain")
        time.sleep(0.05)


def refuses_eventual_writes(cluster):
    with pytest.raises(ClientError) as refused:
        put(at("eventual", cluster.client(read_timeout=30)), "domain", "item", n="1")
    return refused.value.response["Error"]["Code"] == "InvalidParameterCombination"


def test_a_mode_is_changed_under_load_while_a_member_is_killed(tmp_path):
    with Cluster(tmp_path) as cluster, concurrent.futures.ThreadPoolExecutor() as beside:
        with Load(cluster, "eventual; w=2") as load:
            # It may hold writes that no other member has: the change waits for it, and says so.
            cluster.order("kill", "n3")
            cluster.await_roles(lambda roles: roles["n3"] == "out")
            load.await_more()
            change = beside.submit(cluster.mode, "domain", "strong", "--wait")
            await_mode(cluster, "draining, waits for n3")
            assert refuses_eventual_writes(cluster)
            put(cluster.client(read_timeout=30), "domain", "strong", n="1")
            # Taken back, it goes on as if nothing had been.
            assert cluster.mode("domain", "mixed") == "domain: mixed\n"
            with pytest.raises(RuntimeError, match="taken back"):
                change.result()
            load.await_more()
            change = beside.submit(cluster.mode, "domain", "strong", "--wait")
            await_mode(cluster, "draining, waits for n3")
            cluster.order("restart", "n3")
            assert change.result() == "domain: strong\n"
            load.is_ending = True
        assert refuses_eventual_writes(cluster)
        # All that was acknowledged is settled, so that strong reads show it.
        sdb = cluster.client(read_timeout=30)
        sdb.delete_attributes(DomainName="domain", ItemName="strong")
        load.check(sdb)
        cluster.await_roles(is_whole)
        assert cluster.stop() == 0, cluster.log()


def test_a_mode_is_changed_without_a_head_that_is_killed_on_the_way(tmp_path):
    with Cluster(tmp_path) as cluster, concurrent.futures.ThreadPoolExecutor() as beside:
        with Load(cluster, "eventual; w=2") as load:
            head = head_of(cluster.roles()[1])
            cluster.order("kill", head)
            change = beside.submit(cluster.mode, "domain", "strong", "--abandon", "--wait")
            assert change.result() == "domain: strong\n"
            load.is_ending = True
        load.check(cluster.client(read_timeout=30))
        assert cluster.stop() == 0, cluster.log()


def test_a_lone_server_changes_a_mode_at_once(tmp_path):
    with Server(tmp_path) as server:
        sdb = server.client()
        sdb.create_domain(DomainName="domain")
        assert server.mode("domain") == "domain: strong\n"
        assert refuses_eventual_writes(server)
        assert server.mode("domain", "mixed") == "domain: mixed\n"
        put(at("eventual", server.client()), "domain", "item", n="1")
        assert server.mode("domain", "strong") == "domain: strong\n"
        assert refuses_eventual_writes(server)
        assert get(sdb, "domain", "item") == {"n": ["1"]}
        for words, reason in [
            (["nothing", "mixed"], "no domain nothing"),
            (["domain", "draining"], "one of strong, mixed and eventual"),
            (["domain", "mixed", "--abandon"], "leaves members behind"),
            (["do/main"], "no account or domain"),
        ]:
            with pytest.raises(RuntimeError, match=reason):
                server.mode(*words)
        assert server.mode("domain", "eventual") == "domain: eventual\n"
        assert server.stop() == 0, server.log()
        with pytest.raises(RuntimeError, match="no server runs"):
            server.mode("domain")
    with Server(tmp_path, root=False) as server:
        assert server.mode("domain") == "domain: eventual\n"
        assert server.stop() == 0, server.log()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_all_members_down_and_up_again(tmp_path, ending):
    with Cluster(tmp_path) as cluster:
        with Load(cluster) as load:
            load.await_more(50)
            if ending == "kill":
                cluster.kill()
                load.is_ending = True
        if ending == "stop":
            assert cluster.stop() == 0, cluster.log()
    with Cluster(tmp_path, root=False) as cluster:
        load.check(cluster.client(read_timeout=30))
        cluster.await_roles(is_whole)
        load.check(cluster.client())
        assert cluster.stop() == 0, cluster.log()


def test_a_member_whose_log_is_damaged_joins_with_an_empty_folder(tmp_path):
    with Cluster(tmp_path) as cluster:
        with Load(cluster) as load:
            cluster.order("kill", "n2")
            folder = pathlib.Path(cluster.data)
            flip_log(folder / "n2")
            cluster.order("restart", "n2")
            # A quick one takes its place without being out.
            cluster.await_log("n2 serves")
            cluster.await_roles(is_whole)
            load.await_more()
        load.check(cluster.client())
        # The disk is another one: the chain begins again with it alone.
        for other in ("n1", "n3"):
            cluster.order("kill", other)
            cluster.await_roles(lambda roles, other=other: roles[other] == "out")
        load.check(cluster.client(read_timeout=30))
        assert (folder / "n2.damaged-1" / "log").is_dir()
        assert "n2 is damaged: the log is damaged" in cluster.log()
        assert "n2 joins with an empty folder" in cluster.log()
        assert cluster.stop() == 0, cluster.log()


def test_a_member_whose_engine_is_damaged_joins_with_an_empty_folder(tmp_path):
    with Cluster(tmp_path) as cluster:
        with Load(cluster) as load:
            load.await_more(50)
        assert cluster.stop() == 0, cluster.log()
        folder = pathlib.Path(cluster.data)
    flip_engine(folder / "n2")
    with Cluster(tmp_path, root=False) as cluster:
        for _ in range(3):
            load.check(cluster.client(read_timeout=30))
        cluster.await_roles(is_whole)
        assert (folder / "n2.damaged-1" / "engine").is_dir()
        load.check(cluster.client(read_timeout=30))
        assert cluster.stop() == 0, cluster.log()


def test_a_plan_is_followed(tmp_path):
    flags = ["--kill", "n3@0s", "--restart", "n3@3s"]
    with Cluster(tmp_path, *flags) as cluster:
        cluster.await_log("n3 starts again")
        cluster.await_roles(is_whole)
        assert "n3 is killed" in cluster.log().split("n3 starts again")[0]
        assert cluster.stop() == 0, cluster.log()


def test_orders_that_make_no_sense_are_told(tmp_path):
    with Cluster(tmp_path) as cluster:
        for order, reason in [
            (["kill", "n9"], "n1 to n3"),
            (["restart", "n1"], "n1 runs"),
            (["partition", "n1,n2"], "one side"),
            (["pause", "n1", "--for", "soon"], "500ms"),
        ]:
            with pytest.raises(RuntimeError, match=reason):
                cluster.order(*order)
        assert cluster.stop() == 0, cluster.log()
    with pytest.raises(RuntimeError, match="no cluster runs"):
        cluster.order("status")


@pytest.mark.parametrize("wiring, delays", [("star", 2), ("chain", 4)])
def test_members_may_be_far_apart(wiring, delays, tmp_path):
    delay = 0.2
    with Cluster(tmp_path, "--delay", "200ms", "--wiring", wiring) as cluster:
        cluster.await_roles(is_whole)
        mixed = asking(cluster.client(), {"x-fader-collection-mode": "mixed"})
        mixed.create_domain(DomainName="domain")
        # No more delays than these: `operations_take_as_many_delays_as_the_protocol_says`, in
        # virtual time.
        for level, fewest in [("strong", delays), ("eventual; w=2", 2)]:
            client = asking(cluster.client(), {"x-fader-consistency": level})
            start = time.monotonic()
            put(client, "domain", "item", a="1")
            assert fewest * delay <= time.monotonic() - start, level
        assert cluster.stop() == 0, cluster.log()


@pytest.mark.parametrize("kind", ["flipped", "foreign"])
def test_another_sealing_key_is_refused(tmp_path, kind):
    with Cluster(tmp_path) as cluster:
        assert cluster.stop() == 0, cluster.log()
    key = tmp_path / "data" / "seal.key"
    flip(key, 5) if kind == "flipped" else key.write_bytes(bytes(range(32)))
    with pytest.raises(RuntimeError) as caught:
        Cluster(tmp_path)
    told = str(caught.value)
    assert "seal.key" in told and "Restore it" in told, told
