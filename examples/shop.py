"""A shop that chooses its consistency call by call, which is what Fader is for.

    fader serve                            # its first start prints four `export` lines: use them
    python3 -m pip install boto3
    python3 examples/shop.py               # or the endpoints of several nodes of one cluster

    what         level      why
    cart         eventual   must take a book even while nodes cannot reach each other; what two
                            devices put in at once is merged, and a removed book that comes back
                            is a nuisance
    order        strong     of the last copy there is one; a condition decides who gets it
    privacy      strong     "private" holds for the next reader, at any node

Then it takes the cart's level for the order and for the privacy, and counts what goes wrong. That
is copies sold twice, and albums shown that were private already. Each buyer begins after the one
before has the answer, so this is no race of two buyers. It is a node that has not heard yet. On one
node there is no other node to hear late, and nothing goes wrong; give it three.
"""

import argparse
import os
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

CARTS, ORDERS, LOOSE = "shop-carts", "shop-orders", "shop-loose"
CART_LEVEL = "eventual; r=1; w=1"
STRONG = "strong"
# A strong read that also takes note of what other nodes took in and have not settled.
CHECKOUT = "barrier"


class Node:
    """One node of the store, asked at the level that each call names."""

    def __init__(self, endpoint):
        # A name makes a repeated write safe; these calls have none, so each is sent once.
        config = Config(retries={"max_attempts": 0})
        self.sdb = boto3.client("sdb", endpoint_url=endpoint, config=config)
        self.headers = {}
        self.sdb.meta.events.register("before-call.sdb", self.add_headers)

    def add_headers(self, params, **_):
        params["headers"].update(self.headers)

    def ask(self, action, headers, **arguments):
        self.headers = headers
        return getattr(self.sdb, action)(**arguments)

    def create(self, domain, mode):
        self.ask("create_domain", {"x-fader-collection-mode": mode}, DomainName=domain)

    def delete(self, domain):
        self.ask("delete_domain", {}, DomainName=domain)

    def put(self, level, domain, item, attributes, replace=True, expected=None):
        pairs = [
            {"Name": name, "Value": value, "Replace": replace}
            for name, value in attributes.items()
        ]
        more = {"Expected": expected} if expected else {}
        headers = {"x-fader-consistency": level}
        self.ask(
            "put_attributes", headers, DomainName=domain, ItemName=item, Attributes=pairs, **more
        )

    def remove(self, level, domain, item, **attributes):
        pairs = [{"Name": name, "Value": value} for name, value in attributes.items()]
        headers = {"x-fader-consistency": level}
        self.ask("delete_attributes", headers, DomainName=domain, ItemName=item, Attributes=pairs)

    def get(self, level, domain, item):
        """The item as `{name: {values}}`."""
        headers = {"x-fader-consistency": level}
        reply = self.ask("get_attributes", headers, DomainName=domain, ItemName=item)
        found = {}
        for pair in reply.get("Attributes", []):
            found.setdefault(pair["Name"], set()).add(pair["Value"])
        return found


def open_shop(node):
    """The shop's domains. Where orders live the store itself refuses the cart's level."""
    node.create(CARTS, "mixed")
    node.create(ORDERS, "strong")
    node.create(LOOSE, "mixed")


def close_shop(node):
    for domain in [CARTS, ORDERS, LOOSE]:
        node.delete(domain)


def add_to_cart(node, customer, book):
    node.put(CART_LEVEL, CARTS, customer, {"book": book}, replace=False)


def remove_from_cart(node, customer, book):
    node.remove(CART_LEVEL, CARTS, customer, book=book)


def cart(node, customer, level=CART_LEVEL):
    return node.get(level, CARTS, customer).get("book", set())


def stock(node, domain, book):
    """One copy, known everywhere: all buyers begin from the same shelf."""
    node.put(STRONG, domain, book, {"copies": "1"})


def order(node, book, customer):
    """Whether the customer gets the copy: decided at one place, in one step."""
    copies = node.get(STRONG, ORDERS, book).get("copies", set())
    if copies != {"1"}:
        return False
    expected = {"Name": "copies", "Value": "1"}
    try:
        node.put(
            STRONG, ORDERS, book, {"copies": "0", "buyer": customer}, expected=expected
        )
    except ClientError as refusal:
        if refusal.response["Error"]["Code"] != "ConditionalCheckFailed":
            raise
        return False
    return True


def order_as_a_cart(node, book, customer):
    """The same at the cart's level. It has no conditions: this node's own view has to do."""
    copies = node.get(CART_LEVEL, LOOSE, book).get("copies", set())
    if copies != {"1"}:
        return False
    node.put(CART_LEVEL, LOOSE, book, {"copies": "0", "buyer": customer})
    return True


def sell(nodes, take, domain, books):
    """Sells each book's one copy to customers at every node; how many books sold more than once."""
    twice = 0
    for number in range(books):
        book = f"book-{number}"
        stock(nodes[0], domain, book)
        sold = sum(take(node, book, f"customer-{place}") for place, node in enumerate(nodes))
        twice += sold > 1
    return twice


def show_albums(nodes, level, domain, albums):
    """Makes albums private, then looks from every node; how many were shown although private."""
    shown = 0
    for number in range(albums):
        album = f"album-{number}"
        nodes[0].put(STRONG, domain, album, {"audience": "everybody"})
        nodes[0].put(level, domain, album, {"audience": "me"})
        seen = [node.get(level, domain, album).get("audience") for node in nodes]
        shown += {"everybody"} in seen
    return shown


def refused(call, *arguments):
    """The code with which the store refuses a call, or nothing."""
    try:
        call(*arguments)
    except ClientError as refusal:
        return refusal.response["Error"]["Code"]
    return None


def tour(nodes, rounds):
    """Opens the shop and tells what happens in it; how many things went wrong at each level."""
    first, last = nodes[0], nodes[-1]
    add_to_cart(first, "ann", "ulysses")
    add_to_cart(last, "ann", "emma")
    add_to_cart(last, "ann", "dracula")
    remove_from_cart(last, "ann", "dracula")
    books = sorted(cart(last, "ann", CHECKOUT))
    print(f"ann's cart, filled from two devices, at the checkout: {', '.join(books)}")
    code = refused(first.put, CART_LEVEL, ORDERS, "ulysses", {"copies": "0"})
    print(f"an order at the cart's level, where orders live: {code}")

    print(f"\n{'of ' + str(rounds) + ' each':<34}{'strong':>10}{'eventual':>10}")
    strong, loose = sell(nodes, order, ORDERS, rounds), sell(nodes, order_as_a_cart, LOOSE, rounds)
    print(f"{'copies sold twice':<34}{strong:>10}{loose:>10}")
    wrong = [strong, loose]
    strong = show_albums(nodes, STRONG, ORDERS, rounds)
    loose = show_albums(nodes, CART_LEVEL, LOOSE, rounds)
    print(f"{'albums shown although private':<34}{strong:>10}{loose:>10}")
    return wrong[0] + strong, wrong[1] + loose


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    parser.add_argument("endpoints", nargs="*", default=[default], metavar="ENDPOINT")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    # Behind one endpoint there may be many nodes: each of these has a connection of its own.
    endpoints = options.endpoints * 3 if len(options.endpoints) == 1 else options.endpoints
    nodes = [Node(endpoint) for endpoint in endpoints]
    open_shop(nodes[0])
    try:
        strong, loose = tour(nodes, options.rounds)
    finally:
        close_shop(nodes[0])
    if strong:
        sys.exit("the strong level broke its promise")
    if loose == 0 and len(options.endpoints) == 1:
        print(
            "\nNothing went wrong. A node alone reads what it wrote; the cart's level promises\n"
            "nothing of the kind between nodes: run this on those of a cluster."
        )


if __name__ == "__main__":
    main()
