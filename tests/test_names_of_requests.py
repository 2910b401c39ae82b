"""A name of a request belongs to the account that sends it."""

import boto3
import pytest

import server as servers
from sdb_calls import asking, get, put, refused, told
from server import Server, fader

GREATEST = 2**64 - 1


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("names")) as server:
        yield server


@pytest.fixture(scope="module")
def other(server):
    """Makes clients of another account."""
    made = fader(
        "keys", "create", "--account", "000000000002", "--data", server.data, home=server.folder
    ).stdout
    key = {line.rsplit(" ", 1)[0].strip(): line.rsplit(" ", 1)[1] for line in made.splitlines()}
    return lambda: servers.client(server.url, key["access key"], key["secret key"])


@pytest.mark.parametrize("level", ["eventual", "strong"])
def test_two_accounts_may_choose_one_name(server, other, level):
    """A write under a name that another account has used is carried out, with a result of its
    own."""
    domain = f"named-{level}"
    for make in (server.client, other):
        creator = asking(make(), {"x-fader-collection-mode": "mixed"})
        creator.create_domain(DomainName=domain)
    named = {"x-fader-request": f"{len(level):x}/1", "x-fader-consistency": f"{level}; outcome"}
    first = put(asking(other(), named), domain, "i", a="theirs")
    second = put(asking(server.client(), named), domain, "i", a="ours")
    assert get(server.client(), domain, "i") == {"a": ["ours"]}
    assert get(other(), domain, "i") == {"a": ["theirs"]}
    assert told(first)["x-fader-outcome"] == told(second)["x-fader-outcome"] == "applied"
    assert told(first)["x-fader-version"] != told(second)["x-fader-version"]
    again = put(asking(server.client(), named), domain, "i", a="ours")
    assert told(again)["x-fader-version"] == told(second)["x-fader-version"]


def test_no_number_locks_a_client(server, other):
    """A number far beyond is refused in plain words, and nothing changes for other clients."""
    for make in (server.client, other):
        make().create_domain(DomainName="locked")
    for make in (other, server.client):
        put(asking(make(), {"x-fader-request": "cafe/1"}), "locked", "i", a="1")
        with refused("InvalidParameterValue", 400) as caught:
            put(asking(make(), {"x-fader-request": f"cafe/{GREATEST}"}), "locked", "i", a="2")
        assert "1048576" in caught.value.response["Error"]["Message"]
        put(asking(make(), {"x-fader-request": "cafe/2"}), "locked", "i", a="3")
        assert get(make(), "locked", "i") == {"a": ["1", "3"]}
    with refused("InvalidParameterValue", 400):
        put(asking(other(), {"x-fader-request": f"f00d/{GREATEST}"}), "locked", "i", a="2")


def test_two_accounts_may_choose_one_name_on_one_queue(server, other):
    """A queue may be another account's: a name belongs to who sends it."""
    owner, guest = (queues(server, make()) for make in (server.client, other))
    url = owner.create_queue(QueueName="shared")["QueueUrl"]
    owner.add_permission(
        QueueUrl=url, Label="guest", AWSAccountIds=["000000000002"], Actions=["SendMessage"]
    )
    for client, body in [(guest, "theirs"), (owner, "ours"), (guest, "theirs"), (owner, "ours")]:
        client.send_message(QueueUrl=url, MessageBody=body)
    attributes = owner.get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "2"


def queues(server, sdb):
    """A client of queues with the keys of a client of domains, which names its sends."""
    keys = sdb._request_signer._credentials
    sqs = boto3.session.Session().client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=server.url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
    )

    def name(params, model, **_):
        if model.name == "SendMessage":
            params["headers"]["x-fader-request"] = "beef/1"

    sqs.meta.events.register("before-call.sqs", name)
    return sqs
