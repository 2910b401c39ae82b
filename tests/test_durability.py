"""What was acknowledged is there after a restart and after kill -9."""

import random
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from sdb_calls import get, put, select
from server import Server


def test_everything_survives_a_restart(tmp_path):
    with Server(tmp_path) as server:
        sdb = server.client()
        for number in range(3):
            sdb.create_domain(DomainName=f"domain-{number}")
        sdb.delete_domain(DomainName="domain-1")
        for number in range(50):
            put(sdb, "domain-0", f"item-{number:02}", n=str(number), tag=["x", "y"])
        sdb.delete_attributes(DomainName="domain-0", ItemName="item-07")
        page = sdb.select(SelectExpression="select * from `domain-0` limit 10")
        assert server.stop() == 0, server.log()
    # The key comes from the store now, not from the configuration.
    with Server(tmp_path, root=False) as server:
        sdb = server.client()
        assert sdb.list_domains()["DomainNames"] == ["domain-0", "domain-2"]
        assert get(sdb, "domain-0", "item-49") == {"n": ["49"], "tag": ["x", "y"]}
        assert get(sdb, "domain-0", "item-07") == {}
        assert sdb.domain_metadata(DomainName="domain-0")["ItemCount"] == 49
        assert len(select(sdb, "select * from `domain-0` where tag = 'x'")) == 49
        # A token outlives the server that made it.
        rest = sdb.select(
            SelectExpression="select * from `domain-0` limit 10", NextToken=page["NextToken"]
        )
        names = [item["Name"] for item in page["Items"] + rest["Items"]]
        assert len(set(names)) == 20


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path, durability):
    acknowledged = {}
    for round_number in range(4):
        with Server(tmp_path, "--durability", durability) as server:
            sdb = server.client()
            sdb.create_domain(DomainName="domain")
            found = select(sdb, "select * from domain limit 2500")
            for item, value in acknowledged.items():
                assert found[item] == {"n": [value]}
            writers = [
                threading.Thread(target=write, args=(server, round_number, number, acknowledged))
                for number in range(4)
            ]
            enough = len(acknowledged) + random.Random(round_number).randint(20, 400)
            killer = threading.Thread(target=kill_after, args=(server, acknowledged, enough))
            killer.start()
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            killer.join()
    assert len(acknowledged) >= 80


def kill_after(server, acknowledged, enough):
    """Kills the server in the midst of writes, however fast the machine is."""
    deadline = time.monotonic() + 60
    while len(acknowledged) < enough and time.monotonic() < deadline:
        time.sleep(0.001)
    server.kill()


def write(server, round_number, writer, acknowledged):
    sdb = server.client(connect_timeout=5, read_timeout=5)
    for number in range(100_000):
        item = f"{round_number}-{writer}-{number}"
        try:
            put(sdb, "domain", item, n=str(number))
        except (BotoCoreError, ClientError):
            return
        acknowledged[item] = str(number)


def test_counters_count_each_acknowledged_step_once(tmp_path):
    steps = 0
    for round_number in range(3):
        with Server(tmp_path) as server:
            sdb = server.client(connect_timeout=5, read_timeout=5)
            if round_number == 0:
                sdb.create_domain(DomainName="domain")
                put(sdb, "domain", "counter", n="0")
            [value] = get(sdb, "domain", "counter")["n"]
            # The step that was under way when the server died may have been taken, once.
            assert int(value) in (steps, steps + 1)
            steps = int(value)
            killer = threading.Timer(0.5, server.kill)
            killer.start()
            try:
                while True:
                    expected = {"Name": "n", "Value": str(steps)}
                    put(sdb, "domain", "counter", True, expected, n=str(steps + 1))
                    steps += 1
            except (BotoCoreError, ClientError) as error:
                assert not isinstance(error, ClientError), error
            killer.join()
