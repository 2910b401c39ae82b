"""PutAttributes, GetAttributes, DeleteAttributes and their batches through boto3."""

import base64
import threading

import pytest
from botocore.exceptions import ClientError

from sdb_calls import get, pairs, put, refused


def test_values_are_a_set_and_come_back_in_order(sdb, domain):
    put(sdb, domain, "item", color=["red", "blue"], size="9")
    put(sdb, domain, "item", color=["red", "green"], size=["10", "11"])
    reply = sdb.get_attributes(DomainName=domain, ItemName="item", ConsistentRead=True)
    assert reply["Attributes"] == pairs(color=["blue", "green", "red"], size=["10", "11", "9"])


def test_replace_drops_old_values_of_that_attribute_only(sdb, domain):
    put(sdb, domain, "item", color=["red", "blue"], size="9")
    put(sdb, domain, "item", replace=True, color=["white", "black"])
    assert get(sdb, domain, "item") == {"color": ["black", "white"], "size": ["9"]}


def test_a_missing_item_is_empty_and_no_error(sdb, domain):
    reply = sdb.get_attributes(DomainName=domain, ItemName="nobody")
    assert "Attributes" not in reply or reply["Attributes"] == []


def test_only_the_named_attributes_come_back(sdb, domain):
    put(sdb, domain, "item", a="1", b="2", c="3")
    assert get(sdb, domain, "item", "a", "c", "zzz") == {"a": ["1"], "c": ["3"]}


def test_empty_values_are_values(sdb, domain):
    put(sdb, domain, "item", a="")
    assert get(sdb, domain, "item") == {"a": [""]}


def test_text_of_all_kinds_survives(sdb, domain):
    values = ["é", "日本語", "😀", "<a & 'b' \"c\">", " spaces ", "a+b%20c", "line\nline\ttab"]
    put(sdb, domain, "item é <&>", **{"name & <ü>": values})
    assert get(sdb, domain, "item é <&>") == {"name & <ü>": sorted(values, key=str.encode)}


def test_characters_outside_xml_come_in_base64(sdb, domain):
    put(sdb, domain, "item", **{"bell": "a\x07b"})
    reply = sdb.get_attributes(DomainName=domain, ItemName="item", ConsistentRead=True)
    # boto3 hands the text over as it stands in the reply, beside encoding="base64".
    [attribute] = reply["Attributes"]
    assert attribute["Name"] == "bell"
    assert base64.b64decode(attribute["Value"]) == b"a\x07b"


def test_deletes_of_values_and_items(sdb, domain):
    put(sdb, domain, "item", color=["red", "blue"], size="9", weight="1")
    sdb.delete_attributes(
        DomainName=domain,
        ItemName="item",
        Attributes=pairs(color="red", size=["9", "10"]),
    )
    assert get(sdb, domain, "item") == {"color": ["blue"], "weight": ["1"]}
    for _ in range(2):
        sdb.delete_attributes(DomainName=domain, ItemName="item")
    assert get(sdb, domain, "item") == {}


def test_conditional_put_checks_the_single_value(sdb, domain):
    put(sdb, domain, "item", version="1", tag=["x", "y"])
    put(sdb, domain, "item", replace=True, expected={"Name": "version", "Value": "1"}, version="2")
    message = (
        "Conditional check failed. Attribute (version) value is (2) but was expected (1)"
    )
    with refused("ConditionalCheckFailed", 409, message):
        put(sdb, domain, "item", expected={"Name": "version", "Value": "1"}, version="3")
    with refused("AttributeDoesNotExist", 404):
        put(sdb, domain, "item", expected={"Name": "absent", "Value": "1"}, version="3")
    with refused("MultiValuedAttribute", 409):
        put(sdb, domain, "item", expected={"Name": "tag", "Value": "x"}, version="3")
    assert get(sdb, domain, "item", "version") == {"version": ["2"]}


def test_conditional_put_checks_absence(sdb, domain):
    absent = {"Name": "version", "Exists": False}
    put(sdb, domain, "item", expected=absent, version="1")
    message = "Conditional check failed. Attribute (version) value exists"
    with refused("ConditionalCheckFailed", 409, message):
        put(sdb, domain, "item", expected=absent, version="2")


def test_contradictory_conditions_are_refused(sdb, domain):
    with refused("ExistsAndExpectedValue", 400):
        expected = {"Name": "a", "Value": "1", "Exists": False}
        put(sdb, domain, "item", expected=expected, a="1")
    message = (
        "If Expected.Exists = True or unspecified, then Expected.Value has to be specified"
    )
    with refused("IncompleteExpectedValues", 400, message):
        put(sdb, domain, "item", expected={"Name": "a", "Exists": True}, a="1")


def test_conditional_delete(sdb, domain):
    put(sdb, domain, "item", version="1")
    with refused("ConditionalCheckFailed", 409):
        sdb.delete_attributes(
            DomainName=domain, ItemName="item", Expected={"Name": "version", "Value": "2"}
        )
    sdb.delete_attributes(
        DomainName=domain, ItemName="item", Expected={"Name": "version", "Value": "1"}
    )
    assert get(sdb, domain, "item") == {}


def test_racing_conditional_puts_count_each_step_once(server, sdb, domain):
    put(sdb, domain, "counter", value="0")
    steps = 40

    def climb():
        mine = server.client()
        while (now := int(get(mine, domain, "counter")["value"][0])) < steps:
            expected = {"Name": "value", "Value": str(now)}
            try:
                put(mine, domain, "counter", True, expected, value=str(now + 1))
                won.append(now + 1)
            except ClientError as error:
                assert error.response["Error"]["Code"] == "ConditionalCheckFailed"

    won = []
    threads = [threading.Thread(target=climb) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, steps + 1))


def test_batch_put_and_delete(sdb, domain):
    items = [{"Name": f"item-{n}", "Attributes": pairs(n=str(n), kind="x")} for n in range(25)]
    sdb.batch_put_attributes(DomainName=domain, Items=items)
    assert get(sdb, domain, "item-24") == {"n": ["24"], "kind": ["x"]}
    deletes = [{"Name": f"item-{n}"} for n in range(1, 25)]
    deletes.append({"Name": "item-0", "Attributes": pairs(kind="x")})
    sdb.batch_delete_attributes(DomainName=domain, Items=deletes)
    assert get(sdb, domain, "item-0") == {"n": ["0"]}
    assert sdb.domain_metadata(DomainName=domain)["ItemCount"] == 1


def test_a_batch_is_all_or_nothing(sdb, domain):
    items = [
        {"Name": "good", "Attributes": pairs(a="1")},
        {"Name": "bad", "Attributes": pairs(a="x" * 1025)},
    ]
    with refused("InvalidParameterValue", 400):
        sdb.batch_put_attributes(DomainName=domain, Items=items)
    assert get(sdb, domain, "good") == {}


def test_limits_of_batches(sdb, domain):
    item = {"Attributes": pairs(a="1")}
    with refused("DuplicateItemName", 400):
        twice = [{"Name": "same", **item}, {"Name": "same", **item}]
        sdb.batch_put_attributes(DomainName=domain, Items=twice)
    message = "Too many items in a single call. Up to 25 items per call allowed."
    with refused("NumberSubmittedItemsExceeded", 409, message):
        many = [{"Name": f"item-{n}", **item} for n in range(26)]
        sdb.batch_put_attributes(DomainName=domain, Items=many)


def test_limits_of_items(sdb, domain):
    put(sdb, domain, "i" * 1024, **{"n" * 1024: "v" * 1024})
    assert get(sdb, domain, "i" * 1024) == {"n" * 1024: ["v" * 1024]}
    with refused("InvalidParameterValue", 400):
        put(sdb, domain, "i" * 1025, a="1")
    with refused("InvalidParameterValue", 400):
        put(sdb, domain, "item", **{"n" * 1025: "1"})
    with refused("InvalidParameterValue", 400):
        put(sdb, domain, "item", a="v" * 1025)
    # The limit counts bytes of UTF-8, not characters.
    with refused("InvalidParameterValue", 400):
        put(sdb, domain, "item", a="é" * 513)
    put(sdb, domain, "full", a=[str(n) for n in range(256)])
    with refused("NumberItemAttributesExceeded", 409):
        put(sdb, domain, "full", b="one too many")
    with refused("NumberSubmittedAttributesExceeded", 409):
        put(sdb, domain, "item", a=[str(n) for n in range(257)])


@pytest.mark.parametrize("consistent", [True, False])
def test_a_write_is_read_at_once(sdb, domain, consistent):
    for number in range(50):
        put(sdb, domain, "item", replace=True, n=str(number))
        assert get(sdb, domain, "item", consistent=consistent) == {"n": [str(number)]}


def test_empty_lists_are_as_none(sdb, domain):
    for item in ("one", "two"):
        put(sdb, domain, item, a="1")
    reply = sdb.get_attributes(
        DomainName=domain, ItemName="one", AttributeNames=[], ConsistentRead=True
    )
    assert reply["Attributes"] == [{"Name": "a", "Value": "1"}]
    with refused("MissingParameter", 400, "No attributes for item ='one'."):
        sdb.batch_put_attributes(DomainName=domain, Items=[{"Name": "one", "Attributes": []}])
    sdb.batch_delete_attributes(DomainName=domain, Items=[{"Name": "one", "Attributes": []}])
    assert get(sdb, domain, "one") == {}
    assert get(sdb, domain, "two") == {"a": ["1"]}
