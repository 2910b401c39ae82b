"""Members of a cluster are replaced by those of another version, one after the other, under load.

The older ones are this binary, held to an older version. Where `FADER_EARLIER_BIN` names one, they
are also an earlier binary itself, of the version in `FADER_EARLIER_VERSION` (`cargo xtask
upgrade`)."""

import contextlib
import os
import pathlib
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import loads
import s3_calls
import server as servers
from processes import Member, Processes, at_any
from sdb_calls import asking, put, select

EARLIER = os.environ.get("FADER_EARLIER_BIN")
EARLIER_VERSION = int(os.environ.get("FADER_EARLIER_VERSION", 3))
NEWEST = 9
# The first version whose buckets are on chains of data.
WITH_BUCKETS = 8
BUCKET = "photos"
# Of an object that lies in blocks.
BODY = bytes(range(256)) * 256
# What a client tries again: nothing was promised.
RETRYABLE = {"ServiceUnavailable", "InternalError"}


class Upgrading(Processes):
    """A cluster whose members begin as older ones."""

    def __init__(self, folder, version):
        """Of the earlier binary, or, with a version, of this one held to it."""
        self.is_real = version is None
        self.oldest = EARLIER_VERSION if version is None else version
        self.is_new = set()
        super().__init__(folder)

    def init(self, *flags):
        if self.is_real:
            return super().init(*flags, binary=pathlib.Path(EARLIER))
        return super().init(*flags, "--version", str(self.oldest))

    def new_member(self, name, wait=True):
        if name in self.is_new:
            return Member(self, name, wait=wait)
        return self.new_old_member(name, wait)

    def new_old_member(self, name, wait):
        if self.is_real:
            return Member(self, name, wait=wait, binary=pathlib.Path(EARLIER))
        return Member(self, name, wait=wait, more={"FADER_CLUSTER_VERSION_MAX": str(self.oldest)})

    def replace(self, name, is_new):
        """The member ends in order and another version of it begins on its folder."""
        assert self.members[name].stop() == 0, self.log()
        (self.is_new.add if is_new else self.is_new.discard)(name)
        self.start(name)
        self.await_all()

    def await_newest(self, load):
        """The version rises, under load."""
        while (version := self.version()) != NEWEST:
            assert version < NEWEST
            load.await_more(count=1)

    def await_all(self):
        self.await_whole()
        self.await_chains(self.are_whole)


class Load(loads.Load):
    """A writer of strong and one of eventual writes, and one of objects where buckets are on chains
    of data. They note what was acknowledged, and that no answer was one that a client would not try
    again."""

    def __init__(self, cluster):
        eventual = {"x-fader-consistency": "eventual; w=2"}
        writers = [lambda: self.write("strong", {}), lambda: self.write("mixed", eventual)]
        self.cluster = cluster
        self.acknowledged = {"strong": {}, "mixed": {}}
        if WITH_BUCKETS <= cluster.oldest:
            writers.append(self.write_objects)
            self.acknowledged[BUCKET] = {}
        self.wrong = []
        super().__init__(*writers)

    def write(self, domain, headers):
        serial = 0
        while not self.is_ending:
            for client in self.cluster.clients(read_timeout=10):
                asking(client, headers)
                for _ in range(10):
                    serial += 1
                    item, value = f"item-{serial}", str(serial)
                    self.note(domain, item, value, lambda: put(client, domain, item, n=value))

    def write_objects(self):
        serial = 0
        while not self.is_ending:
            for s3 in self.objects():
                for _ in range(10):
                    serial += 1
                    key, body = f"key-{serial}", str(serial).encode() + BODY
                    self.note(BUCKET, key, body, lambda: s3.put_object(
                        Bucket=BUCKET, Key=key, Body=body))

    def objects(self):
        """Clients of objects, of each member."""
        members = self.cluster.members.values()
        return [s3_calls.client_of(member.url, read_timeout=10) for member in members]

    def note(self, domain, item, value, call):
        try:
            call()
        except ClientError as error:
            if error.response["Error"]["Code"] not in RETRYABLE:
                self.wrong.append(error.response)
            return
        except BotoCoreError:
            # The member ends, or has: another one is asked next.
            time.sleep(0.01)
            return
        with self.changed:
            self.acknowledged[domain][item] = value
            self.changed.notify_all()

    def await_more(self, count=20):
        for domain, acknowledged in self.acknowledged.items():
            goal = len(acknowledged) + count
            self.await_that(lambda: goal <= len(acknowledged), seconds=120, what=domain)

    def begin(self):
        clients = self.cluster.clients()
        at_any(clients, lambda sdb: sdb.create_domain(DomainName="strong"))
        mixed = [asking(sdb, {"x-fader-collection-mode": "mixed"}) for sdb in clients]
        at_any(mixed, lambda sdb: sdb.create_domain(DomainName="mixed"))
        if BUCKET in self.acknowledged:
            at_any(self.objects(), lambda s3: s3.create_bucket(Bucket=BUCKET))

    def check(self):
        """All that was acknowledged is there, at each member, and nothing else was answered."""
        assert self.wrong == []
        for key, body in self.acknowledged.pop(BUCKET, {}).items():
            for s3 in self.objects():
                assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body, key
        for client in self.cluster.clients():
            for domain, acknowledged in self.acknowledged.items():
                found = select(client, f"select * from {domain} limit 2500")
                wanted = {item: {"n": [n]} for item, n in acknowledged.items()}
                missing = {item for item in wanted if found.get(item) != wanted[item]}
                assert not missing, domain


@pytest.fixture
def cluster(request, tmp_path):
    if request.param is None and not EARLIER:
        pytest.skip("FADER_EARLIER_BIN names no binary: cargo xtask upgrade builds it")
    with Upgrading(tmp_path, request.param) as running:
        running.await_all()
        yield running


def beginning_as(*versions):
    """Runs with this binary held to each version, and with the earlier binary itself."""
    names = [*(f"version-{version}" for version in versions), "real"]
    return pytest.mark.parametrize("cluster", [*versions, None], indirect=True, ids=names)


@beginning_as(3, NEWEST - 1)
def test_each_member_is_replaced_under_load(cluster):
    assert cluster.version() == cluster.oldest
    with Load(cluster) as load:
        for name in ["n1", "n2"]:
            cluster.replace(name, is_new=True)
            load.await_more()
            assert cluster.version() == cluster.oldest
        cluster.replace("n3", is_new=True)
        cluster.await_newest(load)
        cluster.await_all()
        load.await_more()
        # A member that dies and comes back finds the newest version in its log, and in the others'.
        cluster.kill("n1")
        cluster.await_roles(lambda roles: roles["n1"] == "out" and "head" in roles.values())
        load.await_more()
        cluster.start("n1")
        cluster.await_all()
        load.await_more()
    load.check()
    # There is no way back now, and who tries is told.
    assert cluster.members["n2"].stop() == 0
    cluster.members["n2"] = cluster.new_old_member("n2", wait=False)
    with contextlib.closing(cluster.members["n2"].process.stdout):
        end = time.monotonic() + servers.START_SECONDS_MAX
        found = f"the cluster is of version {NEWEST}, but this process"
        told = ["of another version of Fader", found]
        while not any(words in cluster.members["n2"].log() for words in told):
            assert time.monotonic() < end, cluster.log()
            time.sleep(0.05)


@beginning_as(2)
def test_a_member_goes_back_before_the_version_rises(cluster):
    with Load(cluster) as load:
        for name in ["n1", "n2"]:
            cluster.replace(name, is_new=True)
            load.await_more()
        for name in ["n2", "n1"]:
            cluster.replace(name, is_new=False)
            load.await_more()
        assert cluster.version() == cluster.oldest
        # What the newer ones wrote while they were there does not count for those that are.
        cluster.replace("n3", is_new=True)
        load.await_more()
        assert cluster.version() == cluster.oldest
        for name in ["n1", "n2"]:
            cluster.replace(name, is_new=True)
        cluster.await_newest(load)
        cluster.await_all()
        load.await_more()
    load.check()
