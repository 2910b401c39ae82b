"""Clients that write down what they asked and what they were told.

Each item has an attribute `v`, which strong writers replace, and an attribute `e`, to which
eventual ones add. Every value is written once. Items are asked for during one generation, so that
what must be judged together stays small."""

import base64
import collections
import hashlib
import hmac
import http.client
import itertools
import random
import re
import threading
import time
import urllib.parse
import xml.etree.ElementTree as xml

import server as servers
from nemesis.history import History

# Each on the next chain of those that hold data.
DOMAINS = ["siege", "siege-2", "siege-3"]
ITEMS = 6
GENERATION_OPERATIONS = 350
TIMEOUT_SECONDS = 3
TRIES_MAX = 3
FOUND = re.compile(r"value is \((.*)\) but was expected")

# What a client does next, and how often.
MIX = [
    ("write", "strong", 15), ("swap", "strong", 15), ("read", "strong", 22),
    ("read", "barrier", 4), ("add", "eventual; w=1", 10), ("add", "eventual; w=2", 14),
    ("add", "eventual; sloppy", 4), ("look", "eventual", 20),
]


class NotSent(Exception):
    """No client was there to hear it."""


class Unknown(Exception):
    """Its outcome is unknown."""


class Refusal(Exception):
    """Nothing was done."""

    def __init__(self, code, message, headers):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.headers = code, message, headers


class Caller:
    """Signed requests to one member, over one connection at a time, by a clock that may be ahead
    of ours by some seconds."""

    def __init__(self, host, port, ahead=0):
        self.host, self.ahead = f"{host}:{port}", ahead
        self.connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)

    def ask(self, parameters, headers):
        body = self._signed(parameters)
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            if self.connection.sock is None:
                self.connection.connect()
        except OSError as error:
            self.connection.close()
            raise NotSent(str(error)) from error
        try:
            self.connection.request("POST", "/", body, kind | headers)
            reply = self.connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Unknown(repr(error)) from error
        if reply.status == 200:
            return xml.fromstring(text), reply.headers
        if reply.status == 408 or 500 <= reply.status:
            raise Unknown(f"{reply.status}: {text[:200]!r}")
        tree = xml.fromstring(text)
        raise Refusal(tree.findtext(".//Code"), tree.findtext(".//Message"), reply.headers)

    def _signed(self, parameters):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.ahead))
        parameters = parameters | {
            "AWSAccessKeyId": servers.ACCESS_KEY, "SignatureMethod": "HmacSHA256",
            "SignatureVersion": "2", "Timestamp": now, "Version": "2009-04-15",
        }
        quote = lambda text: urllib.parse.quote(str(text), safe="-_.~")
        query = "&".join(f"{quote(name)}={quote(parameters[name])}" for name in sorted(parameters))
        signed = f"POST\n{self.host}\n/\n{query}".encode()
        digest = hmac.new(servers.SECRET_KEY.encode(), signed, hashlib.sha256).digest()
        return f"{query}&Signature={quote(base64.b64encode(digest).decode())}"


def pairs_of(element):
    """`v`, and what is in `e`, of an answer with attributes."""
    shown = collections.defaultdict(list)
    for pair in element.iter():
        if pair.tag.endswith("Attribute"):
            texts = {child.tag.rsplit("}")[-1]: child.text for child in pair}
            shown[texts["Name"]].append(texts["Value"])
    return shown


def shown_in(element):
    """The same, as it stands in the history."""
    shown = pairs_of(element)
    return {"v": sorted(shown["v"]), "e": sorted(shown["e"])}


def domain_of(item):
    """Items are spread over the domains by their last numbers."""
    return DOMAINS[int(item.rsplit("-", 1)[1]) % len(DOMAINS)]


class Load:
    """Clients at work, and what they wrote down."""

    def __init__(self, addresses, folder, seed, clients=6):
        self.addresses = addresses
        self.seed = seed
        self.history = History(folder)
        self.lock = threading.Lock()
        self.started = 0
        self.items = set()
        self.newest = {}
        self.counts = collections.Counter()
        self.errors = []
        self.is_ending = False
        self.threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(clients)
        ]
        # What became of the domains that come and go.
        self.founded = {}
        self.threads.append(threading.Thread(target=self._found, daemon=True))

    def note(self, **line):
        self.history.note(line)
        with self.lock:
            kind = line.get("op")
            if kind:
                self.counts[f"{kind} {line['outcome']}"] += 1
            if line.get("detached"):
                self.counts["of them detached"] += 1

    # What is done to the cluster stands in the history too.
    note_fault = note

    def next_item(self, chance):
        with self.lock:
            self.started += 1
            item = f"{self.started // GENERATION_OPERATIONS:05}-{chance.randrange(ITEMS)}"
            self.items.add(item)
            return item

    def _work(self, number):
        try:
            Client(self, number).work()
        except Exception as error:  # noqa: BLE001
            self.errors.append(f"client {number}: {error!r}")
            raise

    def _found(self):
        try:
            Founder(self).work()
        except Exception as error:  # noqa: BLE001
            self.errors.append(f"who creates domains: {error!r}")
            raise

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending = True
        for thread in self.threads:
            thread.join()

    def await_acknowledged(self, count, seconds):
        """Waits until so many strong writes more were acknowledged."""
        goal = self.counts["write ok"] + count
        end = time.monotonic() + seconds
        while self.counts["write ok"] < goal:
            if end < time.monotonic():
                return False
            time.sleep(0.05)
        return True


class Client:
    """One of them: one request at a time; every other one in a session."""

    def __init__(self, load, number):
        self.load, self.number = load, number
        self.chance = random.Random(f"{load.seed}/{number}")
        self.callers = {name: Caller(*address) for name, address in load.addresses.items()}
        self.name = f"{self.chance.getrandbits(64):016x}"
        self.serial = 0
        self.token = "" if number % 2 == 0 else None

    def work(self):
        weights = [weight for *_, weight in MIX]
        while not self.load.is_ending:
            [(kind, level, _)] = self.chance.choices(MIX, weights)
            item = self.load.next_item(self.chance)
            asked = {"op": kind, "level": level, "item": item}
            self.serial += 1
            if kind in ["write", "swap", "add"]:
                asked["value"] = f"{self.number}.{self.serial}"
            if kind == "swap":
                asked["expected"] = self.load.newest.get(item, "none")
            self._perform(asked)

    def _perform(self, asked):
        """Asks, and writes down what came of it: of a named write, after asking again."""
        is_named = asked["op"] in ["write", "swap"] and self.chance.random() < 0.5
        headers = {"x-fader-consistency": asked["level"]}
        if is_named:
            headers["x-fader-request"] = f"{self.name}/{self.serial}"
        start = time.monotonic_ns()
        told = {"outcome": "unsent"}
        for _ in range(TRIES_MAX if is_named else 1):
            member = self.chance.choice(list(self.callers))
            again = self._try(member, asked, headers)
            # What was once under way may yet happen, without any client there to hear it.
            if not (again["outcome"] == "unsent" and told["outcome"] == "unknown"):
                told = again | {"node": member}
            if told["outcome"] not in ["unsent", "unknown"]:
                break
        if told["outcome"] == "unsent":
            time.sleep(0.02)
            return
        self.load.note(
            client=self.number, session=self.token is not None, start=start,
            end=time.monotonic_ns(), **asked, **told,
        )

    def _try(self, member, asked, headers):
        if self.token is not None:
            headers = headers | {"x-fader-session": self.token}
        try:
            call = parameters(asked, domain_of(asked["item"]))
            reply, heard = self.callers[member].ask(call, headers)
        except NotSent:
            return {"outcome": "unsent"}
        except Unknown as error:
            return {"outcome": "unknown", "why": str(error)}
        except Refusal as refusal:
            self._hear(refusal.headers)
            return self._refused(asked, refusal)
        self._hear(heard)
        told = {"outcome": "ok", "version": heard.get("x-fader-version")}
        if asked["op"] in ["read", "look"]:
            told |= shown_in(reply)
            if asked["op"] == "read" and told["v"]:
                self.load.newest[asked["item"]] = told["v"][0]
        elif asked["op"] == "add":
            told["detached"] = "detached" in (heard.get("x-fader-outcome") or "")
        else:
            self.load.newest[asked["item"]] = asked["value"]
        return told

    def _hear(self, headers):
        if self.token is not None:
            self.token = headers.get("x-fader-session", self.token)

    def _refused(self, asked, refusal):
        if refusal.code == "TentativeValueLost":
            return {"outcome": "lost"}
        if asked["op"] == "swap" and refusal.code in ["ConditionalCheckFailed",
                                                      "AttributeDoesNotExist"]:
            found = FOUND.search(refusal.message)
            if found:
                self.load.newest[asked["item"]] = found[1]
            return {"outcome": "no", "v": [found[1]] if found else []}
        return {"outcome": "refused", "why": str(refusal)}


class Founder:
    """A client that creates domains, writes to them, and deletes most."""

    LIVE_MAX = 20

    def __init__(self, load):
        self.load = load
        self.chance = random.Random(f"{load.seed}/domains")
        self.callers = [Caller(*address) for address in load.addresses.values()]

    def work(self):
        kept = []
        for number in itertools.count(1):
            if self.load.is_ending:
                return
            name = f"founded-{number}"
            told = {"created": self._told({"Action": "CreateDomain", "DomainName": name})}
            self.load.founded[name] = told
            if told["created"] == "ok":
                told["written"] = self._told(put_in(name))
                kept.append(name)
            if kept and (self.chance.random() < 0.7 or self.LIVE_MAX < len(kept)):
                name = kept.pop(self.chance.randrange(len(kept)))
                call = {"Action": "DeleteDomain", "DomainName": name}
                self.load.founded[name]["deleted"] = self._told(call)
            time.sleep(0.1)

    def _told(self, call):
        """What is known of it: done, refused, or not known."""
        try:
            self.chance.choice(self.callers).ask(call, {})
        except (NotSent, Unknown) as error:
            return f"unknown: {error}"
        except Refusal as refusal:
            return f"refused: {refusal}"
        return "ok"


def put_in(domain):
    return {"Action": "PutAttributes", "DomainName": domain, "ItemName": "first",
            "Attribute.1.Name": "v", "Attribute.1.Value": domain}


def all_domains(caller):
    """Every domain that a member lists."""
    names, token = [], {}
    while True:
        reply, _ = caller.ask({"Action": "ListDomains"} | token, {})
        names += [one.text for one in reply.iter() if one.tag.endswith("DomainName")]
        following = next((one.text for one in reply.iter() if one.tag.endswith("NextToken")), None)
        if not following:
            return names
        token = {"NextToken": following}


def parameters(asked, domain):
    """The call of SimpleDB."""
    call = {"DomainName": domain, "ItemName": asked["item"]}
    if asked["op"] in ["read", "look"]:
        return call | {"Action": "GetAttributes"}
    call["Action"] = "PutAttributes"
    if asked["op"] == "add":
        return call | {"Attribute.1.Name": "e", "Attribute.1.Value": asked["value"]}
    call |= {"Attribute.1.Name": "v", "Attribute.1.Value": asked["value"],
             "Attribute.1.Replace": "true"}
    if asked["op"] == "swap":
        call |= {"Expected.1.Name": "v", "Expected.1.Value": asked["expected"]}
    return call


def all_items(caller, level):
    """Every item of the domains, as a member shows it at a level."""
    items = {}
    for domain in DOMAINS:
        items |= items_of(domain, caller, level)
    return items


def items_of(domain, caller, level):
    items, token = {}, {}
    select = f"select * from `{domain}` limit 1000"
    while True:
        reply, _ = caller.ask({"Action": "Select", "SelectExpression": select} | token,
                              {"x-fader-consistency": level})
        for item in reply.iter():
            if item.tag.endswith("Item"):
                name = next(child.text for child in item if child.tag.endswith("Name"))
                items[name] = shown_in(item)
        following = next((one.text for one in reply.iter() if one.tag.endswith("NextToken")), None)
        if not following:
            return items
        token = {"NextToken": following}
