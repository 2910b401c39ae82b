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


def asking(client, headers=None, parameters=None):
    """Makes a boto3 client send these with every call."""

    def add(params, **_):
        params["headers"].update(headers or {})
        params["body"].update(parameters or {})

    client.meta.events.register("before-call.sdb", add)
    return client


def told(reply):
    """The headers of a reply that only Fader sends."""
    headers = reply["ResponseMetadata"]["HTTPHeaders"]
    return {name: value for name, value in headers.items() if name.startswith("x-fader-")}


class Following:
    """A boto3 client that hands the token of each reply, also of a refusal, to its next request."""

    def __init__(self, client):
        self.sdb = client
        self.token = ""
        self.told = {}
        client.meta.events.register("before-call.sdb", self.ask)
        client.meta.events.register("after-call.sdb", self.hear)

    def ask(self, params, **_):
        params["headers"]["x-fader-session"] = self.token

    def hear(self, http_response, **_):
        self.told = http_response.headers
        self.token = http_response.headers.get("x-fader-session", self.token)
