"""boto 2: GET requests, 0-based indices, a Host header without its port."""

import warnings

import pytest

import server as servers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    boto_sdb = pytest.importorskip("boto.sdb", reason="boto 2 is not installed")
    from boto.exception import SDBResponseError
    from boto.regioninfo import RegionInfo
    from boto.sdb.connection import SDBConnection


@pytest.fixture
def connection(server):
    return SDBConnection(
        aws_access_key_id=servers.ACCESS_KEY,
        aws_secret_access_key=servers.SECRET_KEY,
        is_secure=False,
        port=server.port,
        region=RegionInfo(name="local", endpoint="127.0.0.1"),
    )


def test_a_tour_with_boto_2(connection):
    domain = connection.create_domain("boto-2")
    assert [found.name for found in connection.get_all_domains() if found.name == "boto-2"]
    domain.put_attributes("one", {"color": ["red", "blue"], "size": "10"})
    domain.put_attributes("one", {"size": "11"}, replace=True, expected_value=["size", "10"])
    with pytest.raises(SDBResponseError) as caught:
        domain.put_attributes("one", {"size": "12"}, expected_value=["size", "10"])
    assert (caught.value.status, caught.value.error_code) == (409, "ConditionalCheckFailed")
    assert domain.get_attributes("one", consistent_read=True) == {
        "color": ["blue", "red"],
        "size": "11",
    }
    domain.batch_put_attributes({f"item-{n}": {"n": str(n)} for n in range(25)})
    found = domain.select("select * from `boto-2` where n > '2' order by n desc limit 5")
    assert next(iter(found)).name == "item-9"
    domain.delete_attributes("one", ["color"])
    assert domain.get_attributes("one", consistent_read=True) == {"size": "11"}
    domain.batch_delete_attributes({f"item-{n}": None for n in range(25)})
    assert connection.domain_metadata(domain).item_count == 1
    assert connection.delete_domain("boto-2")


def test_boto_2_looks_domains_up_by_selecting(connection):
    domain = connection.create_domain("boto-2-lookup")
    assert connection.lookup("boto-2-lookup").name == "boto-2-lookup"
    assert connection.lookup("not-there") is None
    connection.delete_domain(domain)
