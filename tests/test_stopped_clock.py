"""A member whose machine was paused, and its clock with it, gives up its leases when it hears the
others. Needs a binary with assertions, whose lease clock a test can set back."""

import concurrent.futures
import contextlib
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from processes import Member, Processes, at_any
from sdb_calls import get, put

LEASE_SECONDS = 4
TOLD = "the clock by which leases end stood still"
READS = 8


class Stopping(Processes):
    """A cluster whose members' lease clocks are set back by files."""

    def new_member(self, name, wait=True):
        more = {"FADER_TEST_STOPPED_MS": str(self.stopped_file(name))}
        return Member(self, name, wait=wait, more=more)

    def stopped_file(self, name):
        return self.folder / f"{name}.stopped"

    def set_back(self, name, seconds):
        """The lease clock of that member stood still for so long."""
        new = self.stopped_file(name).with_suffix(".new")
        new.write_text(f"{int(seconds * 1000)}\n")
        new.rename(self.stopped_file(name))


@pytest.fixture
def cluster(tmp_path):
    with Stopping(tmp_path, lease=f"{LEASE_SECONDS}s") as cluster:
        yield cluster


def test_no_strong_read_is_stale_when_the_others_were_heard(cluster):
    cluster.await_whole()
    at_any(cluster.clients(), lambda sdb: sdb.create_domain(DomainName="domain"))
    _, roles = cluster.roles()
    paused = next(name for name, role in roles.items() if role == "serving")
    others = [cluster.members[name].client(read_timeout=30)
              for name in cluster.names if name != paused]
    put(others[0], "domain", "item", n="old")
    client = cluster.members[paused].client(read_timeout=5)
    assert get(client, "domain", "item") == {"n": ["old"]}
    cluster.members[paused].stop_for_now()
    begun = time.monotonic()
    cluster.await_roles(lambda roles: roles[paused] == "out")
    at_any(others, lambda sdb: put(sdb, "domain", "item", replace=True, n="new"))
    # So that it hears of its removal from no coordinator: only the others' frames tell.
    cluster.zookeeper.kill()
    cluster.set_back(paused, time.monotonic() - begun)
    cluster.members[paused].go_on()
    cluster.members[paused].await_told(TOLD)
    assert cluster.members[paused].metric("fader_clock_alarms_total") > 0
    with concurrent.futures.ThreadPoolExecutor(READS) as beside:
        for read in [beside.submit(get, client, "domain", "item") for _ in range(READS)]:
            with contextlib.suppress(BotoCoreError, ClientError):
                assert read.result() == {"n": ["new"]}
    cluster.zookeeper.start()
    cluster.await_whole()
    assert get(cluster.members[paused].client(read_timeout=30), "domain", "item") == {"n": ["new"]}
