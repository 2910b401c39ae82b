"""How a client chooses: headers and parameters beside SimpleDB's own, and what comes back."""

import json
import uuid

import pytest

import server as servers
from sdb_calls import Following, asking, get, pairs, put, refused, told
from server import fader

SIGNATURES = ["v2", "v4"]


@pytest.fixture(params=SIGNATURES)
def client(request, server):
    """Makes boto3 clients, with one version of signatures and then with the other."""

    def make(headers=None, parameters=None):
        client = server.client(signature_version=request.param)
        return asking(client, headers, parameters)

    return make


def test_an_unmodified_client_is_told_nothing(client, domain):
    sdb = client()
    for reply in [
        sdb.put_attributes(DomainName=domain, ItemName="i", Attributes=pairs(a="1")),
        sdb.get_attributes(DomainName=domain, ItemName="i", ConsistentRead=True),
        sdb.select(SelectExpression=f"select * from `{domain}`"),
        sdb.list_domains(),
    ]:
        assert set(reply["ResponseMetadata"]["HTTPHeaders"]) == {
            "content-type",
            "content-length",
            "date",
        }


@pytest.mark.parametrize("level", ["strong", "eventual", "eventual; bound=0v", "barrier"])
def test_a_read_at_every_level(client, sdb, domain, level):
    put(sdb, domain, "i", a="1")
    for asked in [{"x-fader-consistency": level}, {"X-Fader-Consistency": f" {level} "}]:
        assert get(client(asked), domain, "i", consistent=False) == {"a": ["1"]}
    parameter = client(parameters={"Fader-Consistency": level})
    assert get(parameter, domain, "i", consistent=False) == {"a": ["1"]}


def test_a_strong_write(client, sdb, domain):
    for value, asked in enumerate([{"level": "headers"}, {"level": "parameters"}]):
        [place] = asked.values()
        name = {"headers": "x-fader-consistency", "parameters": "Fader-Consistency"}[place]
        put(client(**{place: {name: "strong"}}), domain, "i", replace=True, a=str(value))
        assert get(sdb, domain, "i") == {"a": [str(value)]}


def test_contradictory_options_are_refused(client, sdb, domain):
    eventual = client({"x-fader-consistency": "eventual"})
    with refused("InvalidParameterCombination", 400):
        get(eventual, domain, "i", consistent=True)
    with refused("InvalidParameterCombination", 400):
        put(eventual, domain, "i", expected={"Name": "a", "Exists": False}, a="1")
    with refused("InvalidParameterCombination", 400):
        put(eventual, domain, "i", a="1")
    with refused("InvalidParameterCombination", 400):
        eventual.create_domain(DomainName="eventual")
    with refused("InvalidParameterCombination", 400):
        put(client({"x-fader-consistency": "eventual; bound=1v"}), domain, "i", a="1")
    both = client({"x-fader-consistency": "strong"}, {"Fader-Consistency": "eventual"})
    with refused("InvalidParameterCombination", 400):
        get(both, domain, "i", consistent=False)
    assert get(sdb, domain, "i") == {}
    assert "eventual" not in sdb.list_domains()["DomainNames"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-fader-consistency", "weak"),
        ("x-fader-consistency", "strong; r=2"),
        ("x-fader-consistency", "eventual; r=0"),
        ("x-fader-level", "strong"),
        ("x-fader-session", "not base64!"),
        ("x-fader-request", "me"),
        ("x-fader-collection-mode", "loose"),
    ],
)
def test_unknown_names_are_refused(server, domain, name, value):
    with refused("InvalidParameterValue", 400) as caught:
        get(asking(server.client(), {name: value}), domain, "i")
    message = caught.value.response["Error"]["Message"]
    assert message.startswith(f"Value ({value}) for parameter {name} is invalid. ")


def test_a_signed_header_cannot_be_changed(server, domain):
    sdb = asking(server.client(signature_version="v4"), {"x-fader-consistency": "strong"})

    def weaken(request, **_):
        request.headers["x-fader-consistency"] = "eventual"

    assert get(sdb, domain, "i", consistent=False) == {}
    sdb.meta.events.register("before-send.sdb", weaken)
    with refused("SignatureDoesNotMatch", 403):
        get(sdb, domain, "i", consistent=False)


def test_a_key_has_a_default(server, sdb, domain, tmp_path):
    def keys(*arguments):
        return fader("keys", "--data", server.data, *arguments, home=tmp_path).stdout

    made = dict(line.rsplit(" ", 1) for line in keys("create").splitlines())
    key = {name.strip(): value for name, value in made.items()}
    unaware = servers.client(server.url, key["access key"], key["secret key"])
    put(unaware, domain, "i", a="1")
    # More members than there are: what is asked is refused, and so it shows that it is asked.
    keys("set", key["access key"], "--consistency", "eventual; r=9; w=9")
    [row] = [row for row in keys("list").splitlines() if key["access key"] in row]
    assert "eventual; r=9; w=9" in row
    with refused("InvalidParameterValue", 400):
        get(unaware, domain, "i", consistent=False)
    assert get(unaware, domain, "i", consistent=True) == {"a": ["1"]}
    # Where it cannot be meant, it is passed over: a strong domain, a condition, a new domain.
    put(unaware, domain, "i", b="2")
    put(unaware, domain, "i", expected={"Name": "b", "Value": "2"}, c="3")
    unaware.create_domain(DomainName=domain)
    # The request goes before the key.
    strong = servers.client(server.url, key["access key"], key["secret key"])
    asking(strong, {"x-fader-consistency": "strong"})
    assert get(strong, domain, "i", consistent=False) == {"a": ["1"], "b": ["2"], "c": ["3"]}
    keys("set", key["access key"], "--consistency", "default")
    assert get(unaware, domain, "i", "a", consistent=False) == {"a": ["1"]}


def test_a_domain_has_a_mode_and_a_default(server, sdb):
    nature = {
        "x-fader-collection-mode": "mixed",
        "x-fader-collection-consistency": "eventual; r=9",
    }
    creator = asking(server.client(), nature)
    creator.create_domain(DomainName="natured")
    creator.create_domain(DomainName="natured")
    sdb.create_domain(DomainName="natured")
    for other in [
        {**nature, "x-fader-collection-mode": "strong"},
        {**nature, "x-fader-collection-consistency": "eventual"},
    ]:
        with refused("ConditionalCheckFailed", 409):
            asking(server.client(), other).create_domain(DomainName="natured")
    put(asking(server.client(), {"x-fader-consistency": "strong"}), "natured", "i", a="1")
    assert get(sdb, "natured", "i", consistent=True) == {"a": ["1"]}
    with refused("InvalidParameterValue", 400):
        get(sdb, "natured", "i", consistent=False)
    eventual = asking(server.client(), {"x-fader-consistency": "eventual"})
    assert get(eventual, "natured", "i", consistent=False) == {"a": ["1"]}
    sdb.delete_domain(DomainName="natured")


def test_the_command_line_asks_too(server, sdb, domain, tmp_path):
    def cli(*arguments, check=True):
        signing = servers.signing(server.url)
        return fader("sdb", *arguments, home=tmp_path, check=check, **signing)

    written = cli("put", domain, "i", "a=1", "--consistency", "strong; outcome", "--verbose")
    assert "tentative" in json.loads(written.stderr)
    session = tmp_path / "ann.session"
    for level in ["strong", "eventual", "eventual; bound=0v"]:
        read = cli("get", domain, "i", "--consistency", level, "--session", session)
        assert "1" in read.stdout
    assert session.exists()
    expression = f"select * from `{domain}`"
    found = cli("select", expression, "--session", session, "--output", "json", "--verbose")
    assert json.loads(found.stdout) == {"item": "i", "attributes": {"a": "1"}}
    assert "tentative" in json.loads(found.stderr)
    cli("put", domain, "i", "a=2", "--replace", "--request", "c0ffee/1")
    assert get(sdb, domain, "i") == {"a": ["2"]}
    refusal = cli("delete", domain, "i", "--consistency", "eventual", check=False)
    assert refusal.returncode == 1
    assert "InvalidParameterCombination" in refusal.stderr
    refusal = cli("get", domain, "i", "--consistency", "weak", check=False)
    assert refusal.returncode == 2
    assert "one of strong, barrier, eventual and default" in refusal.stderr
    session.write_text("?")
    refusal = cli("get", domain, "i", "--session", session, check=False)
    assert refusal.returncode == 1
    assert "cannot go on with the session" in refusal.stderr
    cli("create", "natured-cli", "--mode", "mixed", "--consistency", "eventual; w=2")
    refusal = cli("create", "natured-cli", "--mode", "strong", check=False)
    assert "ConditionalCheckFailed" in refusal.stderr
    cli("drop", "natured-cli")


def test_a_write_tells_its_place(client, domain):
    sdb = client({"x-fader-consistency": "strong"})
    places = []
    for number in range(3):
        reply = sdb.put_attributes(
            DomainName=domain, ItemName="i", Attributes=pairs(a=str(number))
        )
        places.append(tuple(map(int, told(reply)["x-fader-version"].split("."))))
        assert "x-fader-tentative" not in told(reply)
        for level in ["strong", "eventual; bound=0v", "eventual", "barrier"]:
            reader = client({"x-fader-consistency": level})
            read = told(reader.get_attributes(DomainName=domain, ItemName="i"))
            place = told(reply)["x-fader-version"]
            assert read == {"x-fader-version": place, "x-fader-stamp": place}
    assert places == sorted(set(places)), "versions rise"


def test_a_write_sent_again_under_its_name_happens_once(client, sdb, domain):
    retried = client({"x-fader-request": f"{uuid.uuid4().hex}/1"})
    absent = {"Name": "a", "Exists": False}
    first = put(retried, domain, "i", expected=absent, a="1")
    again = put(retried, domain, "i", expected=absent, a="1")
    assert told(again) == told(first)
    with refused("ConditionalCheckFailed", 409):
        put(sdb, domain, "i", expected=absent, a="1")
    # A refusal is remembered too, also after its reason is gone.
    retried = client({"x-fader-request": f"{uuid.uuid4().hex}/2"})
    for _ in range(2):
        with refused("ConditionalCheckFailed", 409):
            put(retried, domain, "i", expected=absent, b="1")
        sdb.delete_attributes(DomainName=domain, ItemName="i")
    assert get(sdb, domain, "i") == {}


def test_a_name_is_that_of_one_request(server, sdb, domain):
    named = asking(server.client(), {"x-fader-request": f"{uuid.uuid4().hex}/1"})
    put(named, domain, "i", a="1")
    with refused("InvalidParameterCombination", 400):
        put(named, domain, "i", a="2")
    assert get(sdb, domain, "i") == {"a": ["1"]}


def test_a_token_goes_from_each_reply_to_the_next_request(client, domain):
    following = Following(client())
    tokens = {""}
    put(following.sdb, domain, "i", a="1")
    tokens.add(following.token)
    with refused("ConditionalCheckFailed", 409):
        put(following.sdb, domain, "i", expected={"Name": "a", "Exists": False}, a="2")
    tokens.add(following.token)
    assert get(following.sdb, domain, "i", consistent=False) == {"a": ["1"]}
    tokens.add(following.token)
    assert len(tokens) == 4, "each reply, and each refusal, has its own"
    assert get(asking(client(), {"x-fader-session": following.token}), domain, "i") == {"a": ["1"]}
    in_form = asking(client(), parameters={"Fader-Session": following.token})
    assert get(in_form, domain, "i") == {"a": ["1"]}


def test_a_token_that_was_not_given_is_refused(server, sdb, domain, tmp_path):
    create = ["keys", "--data", server.data, "create", "--account", "000000000002"]
    made = fader(*create, home=tmp_path).stdout
    key = dict(line.rsplit(" ", 1) for line in made.splitlines())
    key = {name.strip(): value for name, value in key.items()}
    following = Following(server.client())
    put(following.sdb, domain, "i", a="1")
    given = following.token
    other = servers.client(server.url, key["access key"], key["secret key"])
    with refused("InvalidParameterValue", 400) as caught:
        asking(other, {"x-fader-session": given}).create_domain(DomainName="theirs")
    assert "x-fader-session" not in told(caught.value.response)
    for forged in ["AAAA", given[:-4], given[:40] + "AAAA" + given[44:]]:
        with refused("InvalidParameterValue", 400):
            put(asking(server.client(), {"x-fader-session": forged}), domain, "i", b="2")
    assert get(sdb, domain, "i") == {"a": ["1"]}
    unaware = servers.client(server.url, key["access key"], key["secret key"])
    assert unaware.list_domains().get("DomainNames", []) == []


def test_a_session_reads_its_unsettled_writes_at_every_level(server, sdb):
    asking(server.client(), {"x-fader-collection-mode": "mixed"}).create_domain(DomainName="carts")
    following = Following(server.client())
    eventual = Following(asking(server.client(), {"x-fader-consistency": "eventual"}))
    for number in range(20):
        put(eventual.sdb, "carts", f"i{number}", a="1")
        assert eventual.told["x-fader-tentative"] == "true"
        following.token = eventual.token
        # A strong read waits until it is settled.
        assert get(following.sdb, "carts", f"i{number}") == {"a": ["1"]}
        eventual.token = following.token
        bounded = asking(server.client(), {"x-fader-consistency": "eventual; bound=0v"})
        asking(bounded, {"x-fader-session": eventual.token})
        assert get(bounded, "carts", f"i{number}", consistent=False) == {"a": ["1"]}
    sdb.delete_domain(DomainName="carts")


def test_a_write_tells_how_it_ended(server, sdb, domain):
    strong = asking(server.client(), {"x-fader-consistency": "strong; outcome"})
    reply = put(strong, domain, "i", a="1")
    assert told(reply)["x-fader-outcome"] == "applied"
    with refused("ConditionalCheckFailed", 409) as caught:
        put(strong, domain, "i", expected={"Name": "a", "Exists": False}, a="2")
    assert "x-fader-outcome" not in told(caught.value.response)
    asking(server.client(), {"x-fader-collection-mode": "mixed"}).create_domain(DomainName="ended")
    eventual = asking(server.client(), {"x-fader-consistency": "eventual; outcome"})
    reply = put(eventual, "ended", "i", a="1")
    assert told(reply)["x-fader-outcome"] == "applied"
    assert "x-fader-tentative" not in told(reply)
    sdb.delete_domain(DomainName="ended")
