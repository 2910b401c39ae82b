"""Short forms of boto3's calls."""

import contextlib

import pytest
from botocore.exceptions import ClientError


def pairs(**attributes):
    """`pairs(a="1", b=["2", "3"])` as boto3's list of attributes."""
    return [
        {"Name": name, "Value": value}
        for name, values in attributes.items()
        for value in ([values] if isinstance(values, str) else values)
    ]


def replaced(attributes):
    """The same attributes, replacing old values."""
    return [{**attribute, "Replace": True} for attribute in attributes]


def put(sdb, domain, item, replace=False, expected=None, **attributes):
    attributes = pairs(**attributes)
    more = {"Expected": expected} if expected else {}
    return sdb.put_attributes(
        DomainName=domain,
        ItemName=item,
        Attributes=replaced(attributes) if replace else attributes,
        **more,
    )


def get(sdb, domain, item, *names, consistent=True):
    """The item as `{name: [values]}`."""
    more = {"AttributeNames": list(names)} if names else {}
    reply = sdb.get_attributes(
        DomainName=domain, ItemName=item, ConsistentRead=consistent, **more
    )
    return as_dict(reply.get("Attributes", []))


def as_dict(attributes):
    result = {}
    for attribute in attributes:
        result.setdefault(attribute["Name"], []).append(attribute["Value"])
    return result


def select(sdb, expression, consistent=True):
    """All items of all pages, as `{item: {name: [values]}}` in order."""
    items = {}
    token = {}
    while True:
        page = sdb.select(SelectExpression=expression, ConsistentRead=consistent, **token)
        for item in page.get("Items", []):
            assert item["Name"] not in items
            items[item["Name"]] = as_dict(item.get("Attributes", []))
        if not page.get("NextToken"):
            return items
        token = {"NextToken": page["NextToken"]}


@contextlib.contextmanager
def refused(code, status, message=None):
    """The block fails with this error code, HTTP status and, if given, message."""
    with pytest.raises(ClientError) as caught:
        yield caught
    reply = caught.value.response
    assert reply["Error"]["Code"] == code, reply
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == status, reply
    if message is not None:
        assert reply["Error"]["Message"] == message
