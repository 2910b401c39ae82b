"""Fixtures: one server for the suites that only need one, and a domain for each test."""

import collections
import itertools
import os
import zlib

import pytest

import server as servers
from s3_calls import client_of as s3_client_of
from s3_calls import empty
from sqs_calls import client_of

# What the caller's shell says about AWS is no business of the tests.
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

NUMBERS = itertools.count(1)

# Files of half a minute and more, the longest first: none is left alone at the end of a run side by
# side.
LONGEST = [
    "test_processes", "test_conformance", "test_moving", "test_add_a_mutant", "test_dev",
    "test_howtos", "test_upgrade", "test_zookeeper", "test_s3_exports", "test_diagnose",
    "test_mapreduce_python", "test_measure", "test_errors", "test_three_machines",
    "test_s3_cluster", "test_mapreduce", "test_mapreduce_queue", "test_s3_tools", "test_db_clouds",
    "test_floods", "test_db", "test_maintenance", "test_sqs_differences", "test_cluster_howtos",
    "test_documents",
]


def leave_out(config, items):
    """Takes one of each test that is `drawn`, by the seed of a run of CI. So many runs with
    following seeds take all. One of N runs takes a test with the mark `drawn(N)`."""
    seed = int(os.environ["FADER_TESTS_DRAWN_BY"])
    groups = collections.defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("drawn"):
            groups[item.path.stem, item.originalname, *mark.args].append(item)
    left_out = []
    for (_, name, *runs), group in groups.items():
        number = (seed + zlib.crc32(name.encode())) % max([len(group), *runs])
        left_out += group[:number] + group[number + 1:]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_collection_modifyitems(config, items):
    if "FADER_TESTS_DRAWN_BY" in os.environ:
        leave_out(config, items)
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that all tests share; each has domains of its own."""
    with servers.Server(tmp_path_factory.mktemp("server")) as running:
        yield running
        assert running.stop() == 0, running.log()


@pytest.fixture(scope="session")
def sdb(server):
    """A boto3 client of the shared server."""
    return server.client()


@pytest.fixture
def domain(sdb):
    """A new domain."""
    name = f"test-{next(NUMBERS)}"
    sdb.create_domain(DomainName=name)
    yield name
    sdb.delete_domain(DomainName=name)


@pytest.fixture(scope="session")
def sqs(server):
    """A boto3 client of the shared server's queues."""
    return client_of(server)


@pytest.fixture
def queue(sqs):
    """The URL of a new queue."""
    url = sqs.create_queue(QueueName=f"sqs-{next(NUMBERS)}")["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


@pytest.fixture
def fifo(sqs):
    """The URL of a new FIFO queue with ids of bodies."""
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    name = f"sqs-{next(NUMBERS)}.fifo"
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


@pytest.fixture(scope="session")
def s3(server):
    """A boto3 client of the shared server's buckets."""
    return s3_client_of(server.url)


@pytest.fixture
def bucket(s3):
    """A new bucket."""
    name = f"s3-{next(NUMBERS)}"
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)
