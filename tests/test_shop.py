"""The example with the shop: on a server, and on nodes that hear of each other late."""

import importlib.util
import subprocess
import sys

from botocore.exceptions import ClientError

import server as servers
from server import Server

EXAMPLE = servers.ROOT / "examples/shop.py"


def load_example():
    spec = importlib.util.spec_from_file_location("shop", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class LateNode:
    """A node that takes eventual writes in at once, and hears of its peers' not at all.

    What Fader promises at W=1 and R=1 allows exactly this for as long as it takes.
    """

    def __init__(self):
        self.peers = [self]
        self.items = {}

    def put(self, level, domain, item, attributes, replace=True, expected=None):
        if expected and self.get(level, domain, item).get(expected["Name"]) != {expected["Value"]}:
            refusal = {"Error": {"Code": "ConditionalCheckFailed"}}
            raise ClientError(refusal, "PutAttributes")
        for node in self.peers if level == "strong" else [self]:
            stored = node.items.setdefault((domain, item), {})
            for name, value in attributes.items():
                stored[name] = {value} if replace else stored.get(name, set()) | {value}

    def get(self, level, domain, item):
        return dict(self.items.get((domain, item), {}))


def late_nodes(count):
    nodes = [LateNode() for _ in range(count)]
    for node in nodes:
        node.peers = nodes
    return nodes


def test_the_carts_level_sells_the_last_copy_twice():
    shop = load_example()
    nodes = late_nodes(3)
    assert shop.sell(nodes, shop.order, shop.ORDERS, 10) == 0
    assert shop.sell(nodes, shop.order_as_a_cart, shop.LOOSE, 10) == 10
    assert shop.sell(late_nodes(1) * 2, shop.order_as_a_cart, shop.LOOSE, 10) == 0


def test_the_carts_level_shows_what_is_private():
    shop = load_example()
    nodes = late_nodes(3)
    assert shop.show_albums(nodes, shop.STRONG, shop.ORDERS, 10) == 0
    assert shop.show_albums(nodes, shop.CART_LEVEL, shop.LOOSE, 10) == 10
    assert shop.show_albums(late_nodes(1) * 2, shop.CART_LEVEL, shop.LOOSE, 10) == 0


def test_the_shop_on_one_node(tmp_path):
    with Server(tmp_path) as server:
        run = subprocess.run(
            [sys.executable, EXAMPLE, server.url, "--rounds", "20"],
            env=servers.environment(tmp_path, **servers.signing(server.url)),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        assert server.client().list_domains().get("DomainNames", []) == []
    lines = run.stdout.splitlines()
    assert "ann's cart, filled from two devices, at the checkout: emma, ulysses" in lines
    refusal = "an order at the cart's level, where orders live: InvalidParameterCombination"
    assert refusal in lines
    counts = {line[:34].strip(): line[34:].split() for line in lines if line[:34].strip()}
    assert counts["copies sold twice"] == ["0", "0"]
    assert counts["albums shown although private"] == ["0", "0"]
    assert "Nothing went wrong. A node alone reads what it wrote" in run.stdout
