"""A name of a request belongs to the account that sends it."""

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
    """A number far beyond is refused in plain words, and nothing changes for anybody."""
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
