"""CreateDomain, DeleteDomain, ListDomains, DomainMetadata through boto3."""

import time

import pytest

from sdb_calls import put, refused
from server import Server


def test_a_domain_is_created_once_and_deleted_without_complaint(sdb):
    for _ in range(2):
        reply = sdb.create_domain(DomainName="twice")
        assert reply["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert float(reply["ResponseMetadata"]["BoxUsage"]) == 0.0055590278
    assert "twice" in sdb.list_domains()["DomainNames"]
    for _ in range(2):
        sdb.delete_domain(DomainName="twice")
    assert "twice" not in sdb.list_domains().get("DomainNames", [])


@pytest.mark.parametrize("name", ["ab", "with space", "a" * 256, "slash/ed", "ümlaut"])
def test_bad_domain_names_are_refused(sdb, name):
    with refused("InvalidParameterValue", 400):
        sdb.create_domain(DomainName=name)


def test_the_longest_and_strangest_allowed_names(sdb):
    for name in ["abc", "a" * 255, "A-Z_0.9"]:
        sdb.create_domain(DomainName=name)
        put(sdb, name, "item", a="1")
        assert sdb.domain_metadata(DomainName=name)["ItemCount"] == 1
        sdb.delete_domain(DomainName=name)


def test_an_unknown_domain_is_named_as_such(sdb):
    message = "The specified domain does not exist."
    with refused("NoSuchDomain", 400, message):
        put(sdb, "nowhere", "item", a="1")
    with refused("NoSuchDomain", 400, message):
        sdb.get_attributes(DomainName="nowhere", ItemName="item")
    with refused("NoSuchDomain", 400, message):
        sdb.select(SelectExpression="select * from nowhere")
    with refused("NoSuchDomain", 400, message):
        sdb.domain_metadata(DomainName="nowhere")


def test_a_deleted_domain_comes_back_empty(sdb, domain):
    put(sdb, domain, "item", a="1")
    sdb.delete_domain(DomainName=domain)
    sdb.create_domain(DomainName=domain)
    reply = sdb.get_attributes(DomainName=domain, ItemName="item", ConsistentRead=True)
    assert reply.get("Attributes", []) == []
    assert sdb.domain_metadata(DomainName=domain)["AttributeValueCount"] == 0


def test_domains_are_listed_in_pages(tmp_path):
    with Server(tmp_path) as server:
        sdb = server.client()
        names = sorted(f"domain-{number:03}" for number in range(23))
        for name in names:
            sdb.create_domain(DomainName=name)
        listed, token = [], {}
        while True:
            page = sdb.list_domains(MaxNumberOfDomains=10, **token)
            assert len(page["DomainNames"]) <= 10
            listed += page["DomainNames"]
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert listed == names
        with refused("InvalidNextToken", 400):
            sdb.list_domains(NextToken="no token of ours")
        message = "Value (101) for parameter MaxNumberOfDomains is invalid. "
        with refused("InvalidParameterValue", 400) as caught:
            sdb.list_domains(MaxNumberOfDomains=101)
        assert caught.value.response["Error"]["Message"].startswith(message)


def test_the_251st_domain_is_refused(tmp_path):
    with Server(tmp_path, "--durability", "os") as server:
        sdb = server.client()
        for number in range(250):
            sdb.create_domain(DomainName=f"domain-{number}")
        with refused("NumberDomainsExceeded", 409):
            sdb.create_domain(DomainName="one-too-many")
        sdb.create_domain(DomainName="domain-7")


def test_metadata_counts_what_is_there(sdb, domain):
    put(sdb, domain, "one", color=["red", "blue"], size="10")
    put(sdb, domain, "two", color="red")
    reply = sdb.domain_metadata(DomainName=domain)
    assert reply["ItemCount"] == 2
    assert reply["ItemNamesSizeBytes"] == len("one") + len("two")
    assert reply["AttributeNameCount"] == 2
    assert reply["AttributeNamesSizeBytes"] == len("color") + len("size")
    assert reply["AttributeValueCount"] == 4
    assert reply["AttributeValuesSizeBytes"] == len("red" + "blue" + "10" + "red")
    assert abs(reply["Timestamp"] - time.time()) < 300
    assert float(reply["ResponseMetadata"]["BoxUsage"]) == 0.0000071759
    sdb.delete_attributes(DomainName=domain, ItemName="one")
    reply = sdb.domain_metadata(DomainName=domain)
    assert (reply["ItemCount"], reply["AttributeValueCount"]) == (1, 1)
