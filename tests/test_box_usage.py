"""BoxUsage: the figures that AWS is recorded to have sent."""

import concurrent.futures

import pytest

from sdb_calls import get, pairs, put, refused

PUTS = 10_000
THREADS = 8


def usage(reply):
    return float(reply["ResponseMetadata"]["BoxUsage"])


def test_ten_thousand_puts_cost_what_they_did_in_2008(server, sdb, domain):
    """The article of 2008: 10,000 PutAttributes of 2 attributes reported 0.219923 box hours."""

    def run(numbers):
        mine = server.client()
        return sum(usage(put(mine, domain, f"item-{n}", a=str(n), b="2")) for n in numbers)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        shares = [range(start, PUTS, THREADS) for start in range(THREADS)]
        total = sum(pool.map(run, shares))
    assert f"{total:.6f}" == "0.219923"
    assert sdb.domain_metadata(DomainName=domain)["ItemCount"] == PUTS


@pytest.mark.parametrize("count", [1, 3, 27, 256])
def test_puts_and_deletes_grow_with_the_cube(sdb, domain, count):
    expected = round(0.0000219907 + 2e-10 * count**3, 10)
    attributes = pairs(a=[str(n) for n in range(count)])
    where = {"DomainName": domain, "ItemName": "item", "Attributes": attributes}
    assert usage(sdb.put_attributes(**where)) == expected
    assert usage(sdb.delete_attributes(**where)) == expected


def test_gets_grow_with_the_square_of_the_names(sdb, domain):
    put(sdb, domain, "item", a=["1", "2", "3", "4", "5"])
    reply = sdb.get_attributes(DomainName=domain, ItemName="item", ConsistentRead=True)
    assert usage(reply) == 0.0000093222
    put(sdb, domain, "item", b="1", c="1", d=["1", "2", "3"])
    reply = sdb.get_attributes(DomainName=domain, ItemName="item", ConsistentRead=True)
    assert usage(reply) == 0.0000093522


def test_batches_cost_seven_tenths(sdb, domain):
    deletes = [{"Name": f"item-{n}"} for n in range(3)]
    reply = sdb.batch_delete_attributes(DomainName=domain, Items=deletes)
    assert usage(reply) == 0.0000461805
    one = [{"Name": "item", "Attributes": pairs(a=["1", "2", "3"])}]
    reply = sdb.batch_put_attributes(DomainName=domain, Items=one)
    assert usage(reply) == 0.0000219961


def test_a_select_costs_by_the_item(sdb, domain):
    for start in range(0, 125, 25):
        items = [{"Name": f"i{n}", "Attributes": pairs(a="1")} for n in range(start, start + 25)]
        sdb.batch_put_attributes(DomainName=domain, Items=items)
    expression = f"select itemName() from `{domain}` limit 125"
    reply = sdb.select(SelectExpression=expression, ConsistentRead=True)
    assert usage(reply) == round(0.000014 + 8e-9 * 125, 10)


def test_refusals_cost_too(sdb, domain):
    put(sdb, domain, "item", a="1")
    with refused("ConditionalCheckFailed", 409) as caught:
        put(sdb, domain, "item", expected={"Name": "a", "Value": "2"}, a="3")
    assert caught.value.response["Error"]["BoxUsage"] == "0.0000219907"
    assert get(sdb, domain, "item") == {"a": ["1"]}
