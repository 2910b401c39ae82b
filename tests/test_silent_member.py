"""A node without a copy asks the next member when one is silent: eventual operations go on."""

import concurrent.futures
import time

import pytest

from processes import Processes, at_any
from sdb_calls import asking, get, put, select

EVENTUAL = {"x-fader-consistency": "eventual"}
OPERATIONS = 24
SETTLED_SECONDS_MAX = 60


@pytest.fixture
def cluster(tmp_path):
    flags = ("--chains", "1", "--copies", "3")
    # While the test runs no session ends.
    with Processes(tmp_path, ("n1", "n2", "n3", "n4"), lease="30s", flags=flags) as cluster:
        yield cluster


def test_a_node_without_a_copy_does_not_wait_for_one_member(cluster):
    cluster.await_whole()
    places = cluster.await_chains(lambda it: sorted(it.values()) == ["head", "serving", "serving"])
    places = places["chain 1"]
    mixed = [asking(sdb, {"x-fader-collection-mode": "mixed"}) for sdb in cluster.clients()]
    at_any(mixed, lambda sdb: sdb.create_domain(DomainName="domain"))
    (outside,) = set(cluster.names) - set(places)
    silent = next(name for name, role in places.items() if role == "serving")
    client = asking(cluster.members[outside].client(max_pool_connections=32), EVENTUAL)
    put(client, "domain", "item", a="1")
    cluster.members[silent].stop_for_now()
    try:
        with concurrent.futures.ThreadPoolExecutor(OPERATIONS) as beside:
            puts = [beside.submit(put, client, "domain", f"item-{number}", a="1")
                    for number in range(OPERATIONS)]
            gets = [beside.submit(get, client, "domain", "item", consistent=False)
                    for _ in range(OPERATIONS)]
            # A third of them meets the silent one first.
            for done in puts:
                done.result()
            assert {tuple(done.result()["a"]) for done in gets} == {("1",)}
    finally:
        cluster.members[silent].go_on()
    cluster.await_chains(lambda it: sorted(it.values()) == ["head", "serving", "serving"])
    strong = cluster.members[outside].client(read_timeout=30)
    wanted = {f"item-{number}" for number in range(OPERATIONS)}
    end = time.monotonic() + SETTLED_SECONDS_MAX
    while wanted - set(found := select(strong, "select * from domain")):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    assert all(found[item] == {"a": ["1"]} for item in wanted)
