"""The five phases of `fader measure window` by boto3, with 34 threads and botocore's own retries.

boto3 is the one AWS SDK of today that still has SimpleDB. What happens is recorded as
`fader measure window --log` does, so that `fader measure window --show` tells and draws it.

    python tests/sdk_phases.py URL MODE LOG [--items 10000] [--threads 34]

MODE is `standard` or `adaptive`. Keys come from the environment, as boto3 finds them.
"""

import argparse
import json
import queue
import threading
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

STEP_SECONDS = 0.1
PAGE = 250
# Names waiting for a thread: as many as keep all of them busy.
AT_HAND = 1024
NAMES = [
    "put",
    "query all, get one",
    "query one, get the other",
    "query both, get both",
    "delete",
]


class Tally:
    """What is counted while threads work."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = dict(answered=0, refused=0, given_up=0, unexpected=0)
        self.in_flight = 0

    def add(self, name, more=1):
        with self.lock:
            self.counts[name] += more

    def leaves(self, **_):
        with self.lock:
            self.in_flight += 1

    def watch(self, client):
        """Attempts are seen where botocore sends them, so its own repetitions count too."""
        client.meta.events.register("before-send.simpledb", self.leaves)
        client.meta.events.register("response-received.simpledb", self.ends)

    def ends(self, response_dict, **_):
        """An attempt ended; without an answer there is nothing in it."""
        with self.lock:
            self.in_flight -= 1
            if response_dict is not None and response_dict.get("status_code") == 503:
                self.counts["refused"] += 1


class Run:
    """One client of one address, and the items."""

    def __init__(self, url, mode, items, threads):
        retries = {"mode": mode}
        config = Config(retries=retries, max_pool_connections=threads, read_timeout=30)
        session = boto3.session.Session(region_name="us-east-1")
        self.client = session.client("sdb", endpoint_url=url, config=config)
        self.items = items
        self.threads = threads
        self.domain = f"fader-sdk-{time.time_ns() // 1_000_000}"
        self.tally = Tally()
        self.tally.watch(self.client)
        self.served, self.connections = [], []

    def name(self, item):
        return f"item-{item:08}"

    def attributes(self, item):
        return {"falling": f"{self.items - 1 - item:08}", "rising": f"{item:08}"}

    def put(self, item):
        attributes = [
            {"Name": name, "Value": value, "Replace": True}
            for name, value in self.attributes(item).items()
        ]
        self.client.put_attributes(
            DomainName=self.domain, ItemName=self.name(item), Attributes=attributes
        )

    def delete(self, item):
        self.client.delete_attributes(DomainName=self.domain, ItemName=self.name(item))

    def get(self, names):
        def get(item):
            answer = self.client.get_attributes(
                DomainName=self.domain, ItemName=item, AttributeNames=names
            )
            got = {it["Name"]: it["Value"] for it in answer.get("Attributes", [])}
            wanted = self.attributes(int(item.removeprefix("item-")))
            if got != {name: wanted[name] for name in names}:
                self.tally.add("unexpected")

        return get

    def found(self, condition, expected):
        """Names, page by page, as they come."""
        more = {}
        count = 0
        while True:
            expression = f"select itemName() from `{self.domain}` {condition}limit {PAGE}"
            page = self.client.select(SelectExpression=expression, **more)
            self.tally.add("answered")
            for item in page.get("Items", []):
                count += 1
                yield item["Name"]
            if not page.get("NextToken"):
                break
            more = {"NextToken": page["NextToken"]}
        self.tally.add("unexpected", abs(count - expected))

    def each(self, work, names):
        """Does something with each of the names, in threads."""
        line = queue.Queue(AT_HAND)

        def thread():
            while (name := line.get()) is not None:
                try:
                    work(name)
                    self.tally.add("answered")
                except (BotoCoreError, ClientError):
                    self.tally.add("given_up")

        threads = [threading.Thread(target=thread) for _ in range(self.threads)]
        for each in threads:
            each.start()
        try:
            for name in names:
                line.put(name)
        finally:
            for _ in threads:
                line.put(None)
            for each in threads:
                each.join()

    def phases(self):
        one, both = self.items * 6_971 // 10_000, self.items * 9_900 // 10_000
        below = both // 2
        above = both - below
        everything = self.found("", self.items)
        yield lambda: self.each(self.put, range(self.items))
        yield lambda: self.each(self.get(["rising"]), everything)
        rising = f"where rising < '{one:08}' "
        yield lambda: self.each(self.get(["falling"]), self.found(rising, one))
        either = f"where rising < '{below:08}' or falling < '{above:08}' "
        yield lambda: self.each(self.get(["falling", "rising"]), self.found(either, both))
        yield lambda: self.each(self.delete, range(self.items))

    def sample(self, ended):
        """Looks at what was served and is in flight, step by step."""
        former, due = 0, time.monotonic()
        while not ended.is_set():
            due += STEP_SECONDS
            ended.wait(max(0.0, due - time.monotonic()))
            answered = self.tally.counts["answered"]
            self.served.append(answered - former)
            self.connections.append(max(0, self.tally.in_flight))
            former = answered

    def run(self):
        self.client.create_domain(DomainName=self.domain)
        ended = threading.Event()
        sampler = threading.Thread(target=self.sample, args=(ended,))
        start = time.monotonic()
        sampler.start()
        recorded = []
        try:
            for name, phase in zip(NAMES, self.phases(), strict=True):
                before, begun = dict(self.tally.counts), time.monotonic()
                phase()
                counts = {key: self.tally.counts[key] - before[key] for key in before}
                times = dict(start_s=begun - start, end_s=time.monotonic() - start)
                recorded.append(dict(name=name, **times, **counts))
        finally:
            ended.set()
            sampler.join()
        self.drop()
        return recorded

    def drop(self):
        """A service that is just busy deleting items may refuse a few times."""
        for _ in range(20):
            try:
                return self.client.delete_domain(DomainName=self.domain)
            except ClientError:
                time.sleep(0.25)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("mode", choices=["standard", "adaptive"])
    parser.add_argument("log")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=34)
    options = parser.parse_args()
    run = Run(options.url, options.mode, options.items, options.threads)
    phases = run.run()
    recording = dict(
        client=f"boto3 {boto3.__version__}, {options.mode}, {options.threads} threads",
        addresses=1,
        items=options.items,
        step_s=STEP_SECONDS,
        served=run.served,
        connections=run.connections,
        phases=phases,
    )
    with open(options.log, "w") as log:
        json.dump(recording, log)


if __name__ == "__main__":
    main()
