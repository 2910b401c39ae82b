"""`python -m queues.differ --scripts N`: the same calls to ElasticMQ and to Fader; what differs.

A script makes a queue and calls it by chance: sends, receives, deletions, visibilities, batches,
attributes, tags, and calls that are wrong. What is compared of an answer is named by the script's
own words, not by ids. Known differences have a source in docs/reference/compatibility/sqs.md."""

import argparse
import collections
import contextlib
import pathlib
import random
import sys
import tempfile

import boto3
import botocore.exceptions
from botocore.config import Config

import clouds
import server as servers

CALLS = (6, 18)
# What changes nothing.
READS = ["get_queue_attributes", "list_queue_tags"]

# Codes of ElasticMQ and of Fader for one mistake, where both refuse.
CODES = {
    ("BatchEntryIdsNotDistinct", "TooManyEntriesInBatchRequest"),
    ("InvalidParameterValue", "BatchEntryIdsNotDistinct"),
    ("500", "InvalidAttributeValue"), ("InvalidAttributeValue", "InvalidMessageContents"),
    ("InvalidAttributeValue", "InvalidParameterValue"),
    ("InvalidAttributeValue", "MissingParameter"),
    ("InvalidMessageContents", "InvalidParameterValue"),
    ("InvalidParameterValue", "MissingParameter"),
    ("InvalidParameterValue", "TooManyEntriesInBatchRequest"),
    ("MissingParameter", "InvalidParameterValue"),
    ("ReceiptHandleIsInvalid", "InvalidParameterValue"),
}


def is_code(_action, _parameters, theirs, ours):
    return (theirs[1], ours[1]) in CODES if theirs[0] == ours[0] == "refused" else False


def is_code_of_entry(action, _parameters, theirs, ours):
    """Both took the same entries of a batch."""
    if not action.endswith("_batch") or not theirs[0] == ours[0] == "ok":
        return False
    names = [[id_ for id_, _ in told[1][1]] for told in [theirs, ours]]
    return theirs[1][0] == ours[1][0] and names[0] == names[1]


def is_range(action, parameters, theirs, ours):
    """A number beyond its range, or an attribute that there is not."""
    seconds = parameters.get("VisibilityTimeout", 0)
    beyond = seconds not in range(43_201) or parameters.get("WaitTimeSeconds", 0) not in range(21)
    judged = action in ["set_queue_attributes", "get_queue_attributes"]
    codes = ["InvalidParameterValue", "InvalidAttributeValue", "InvalidAttributeName"]
    return (judged or beyond) and theirs[0] == "ok" and ours[1] in codes


def is_whole_batch(action, parameters, theirs, ours):
    """A batch that AWS refuses as a whole."""
    is_named = all(entry.get("MessageGroupId") and entry.get("MessageDeduplicationId")
                   for entry in parameters.get("Entries", []))
    codes = ["InvalidParameterValue", "MissingParameter"]
    return action == "send_message_batch" and not is_named and theirs[0] == "ok" and (
        ours[1] in codes)


def is_type(action, parameters, theirs, ours):
    """A type of attributes that there is not: ElasticMQ refuses the batch."""
    types = [attribute["DataType"] for entry in parameters.get("Entries", [])
             for attribute in entry.get("MessageAttributes", {}).values()]
    return "Other" in types and theirs[0] == "refused" and ours[0] == "ok"


def is_order_of_groups(action, _parameters, theirs, ours):
    """Each group is in its order, and groups are in another."""
    if action != "receive_message" or not theirs[0] == ours[0] == "ok":
        return False
    groups = []
    for told in [theirs, ours]:
        of = collections.defaultdict(list)
        for message in told[1]:
            of[message[4].get("MessageGroupId")].append(message)
        groups.append(of)
    return None not in groups[0] and groups[0] == groups[1]


def is_more_attributes(action, _parameters, theirs, ours):
    """Fader has attributes that ElasticMQ has not; what both have is the same."""
    if action != "get_queue_attributes" or not theirs[0] == ours[0] == "ok":
        return False
    return all(ours[1].get(name) == value for name, value in theirs[1].items())


def is_old_handle(action, _parameters, theirs, ours):
    """A handle of a message that is gone, or of an earlier receive."""
    if action == "delete_message_batch" and theirs[0] == ours[0] == "ok":
        codes = {code for told in [theirs, ours] for _, code in told[1][1]}
        names = [{*told[1][0], *[id_ for id_, _ in told[1][1]]} for told in [theirs, ours]]
        return names[0] == names[1] and codes <= {"ReceiptHandleIsInvalid",
                                                  "InvalidParameterValue"}
    if action not in ["delete_message", "change_message_visibility"]:
        return False
    return (theirs[1], ours[0]) == ("ReceiptHandleIsInvalid", "ok") or (
        (theirs[0], ours[1]) == ("ok", "InvalidParameterValue"))


# What differs as it should: docs/reference/compatibility/sqs.md has the source of each.
KNOWN = {
    "the code of a refusal": is_code,
    "the code of an entry of a batch": is_code_of_entry,
    "an empty batch is refused": lambda _action, parameters, _theirs, ours: (
        parameters.get("Entries") == [] and ours[1] == "EmptyBatchRequest"),
    "ranges and names of attributes": is_range,
    "a batch without groups or ids is refused as a whole": is_whole_batch,
    "an unknown type is the fault of its entry": is_type,
    "order between groups": is_order_of_groups,
    "attributes of a queue": is_more_attributes,
    "an old handle": is_old_handle,
}


def client(url):
    # What a client checks of parameters before it asks is no matter here.
    settings = Config(retries={"max_attempts": 0}, parameter_validation=False, read_timeout=30)
    keys = {"aws_access_key_id": servers.ACCESS_KEY, "aws_secret_access_key": servers.SECRET_KEY}
    return boto3.session.Session().client(
        "sqs", endpoint_url=url, region_name="us-east-1", config=settings, **keys)


class Side:
    """One of the two servers, as a script sees it."""

    def __init__(self, url, name, attributes):
        self.sqs = client(url)
        self.is_fifo = name.endswith(".fifo")
        self.handles = []
        made = self.told("create_queue", QueueName=name, Attributes=attributes)
        self.made, self.url = made[:1], made[1].get("QueueUrl") if made[0] == "ok" else None

    def told(self, action, **parameters):
        try:
            return "ok", getattr(self.sqs, action)(**parameters)
        except botocore.exceptions.ClientError as error:
            return "refused", error.response["Error"]["Code"].rsplit(".", 1)[-1]

    def call(self, action, parameters):
        """What comes of a call, in the words of the script."""
        parameters = {name: self.own(value) for name, value in parameters.items()}
        outcome, reply = self.told(action, QueueUrl=self.url, **parameters)
        return (outcome, self.shown(action, reply)) if outcome == "ok" else (outcome, reply)

    def own(self, value):
        """Handles of this side in the place of their numbers."""
        if isinstance(value, dict):
            return {name: self.own(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.own(inner) for inner in value]
        if isinstance(value, Handle):
            return self.handles[value] if value < len(self.handles) else "forged"
        return value

    def shown(self, action, reply):
        if action == "receive_message":
            messages = reply.get("Messages", [])
            if not self.is_fifo:
                messages = sorted(messages, key=lambda it: (
                    it["Body"], int(it["Attributes"]["ApproximateReceiveCount"])))
            self.handles += [message["ReceiptHandle"] for message in messages]
            return [shown_message(message) for message in messages]
        if "Successful" in reply or "Failed" in reply:
            good = [it["Id"] for it in reply.get("Successful", [])]
            bad = [(it["Id"], it["Code"].rsplit(".", 1)[-1]) for it in reply.get("Failed", [])]
            return sorted(good), sorted(bad)
        if action == "send_message":
            return reply["MD5OfMessageBody"], reply.get("MD5OfMessageAttributes")
        if action in ["get_queue_attributes", "list_queue_tags"]:
            return {name: value for part in ["Attributes", "Tags"]
                    for name, value in reply.get(part, {}).items() if name not in OWN}
        return None


# Attributes that tell of a server and not of what was done.
OWN = {"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn"}


class Handle(int):
    """The number of a receipt handle, in the order of the script."""


def shown_message(message):
    attributes = message.get("Attributes", {})
    kept = ["ApproximateReceiveCount", "MessageGroupId", "MessageDeduplicationId", "AWSTraceHeader"]
    return (message["Body"], message["MD5OfBody"], message.get("MD5OfMessageAttributes"),
            message.get("MessageAttributes"),
            {name: attributes[name] for name in kept if name in attributes})


class Script:
    """Calls that follow from a seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.is_fifo = self.chance.random() < 0.4
        self.name = f"differ-{seed}" + (".fifo" if self.is_fifo else "")
        self.attributes = {"VisibilityTimeout": self.chance.choice(["0", "300"])}
        if self.is_fifo:
            self.attributes["FifoQueue"] = "true"
            if self.chance.random() < 0.5:
                self.attributes["ContentBasedDeduplication"] = "true"
        self.sent = self.received = 0

    def calls(self):
        for _ in range(self.chance.randint(*CALLS)):
            kinds = [self.send] * 4 + [self.receive] * 3 + [self.delete] * 2 + [
                self.visibility, self.send_batch, self.delete_batch, self.attributes_of,
                self.set_attributes, self.tags]
            yield self.chance.choice(kinds)()

    def entry(self):
        chance = self.chance
        self.sent += 1
        entry = {"MessageBody": chance.choice([f"body {self.sent}", "same", "é <&>", "a\tb"])}
        if chance.random() < 0.1:
            entry["MessageBody"] = chance.choice(["", "\x01", "\ufffe", "x" * 300_000])
        if chance.random() < 0.15:
            entry["DelaySeconds"] = chance.choice([0, 900, 901, -1])
        if self.is_fifo and chance.random() < 0.95 or chance.random() < 0.05:
            entry["MessageGroupId"] = chance.choice(["a", "b"])
        if self.is_fifo and chance.random() < 0.7 or chance.random() < 0.05:
            entry["MessageDeduplicationId"] = chance.choice([f"id{self.sent}", "id"])
        if chance.random() < 0.3:
            entry["MessageAttributes"] = {"k": chance.choice([
                {"DataType": "String", "StringValue": "v"},
                {"DataType": "Number.int", "StringValue": "7"},
                {"DataType": "Binary", "BinaryValue": b"\0\xff"},
                {"DataType": "String", "StringValue": ""},
                {"DataType": "Number", "StringValue": "x"},
                {"DataType": "Other", "StringValue": "v"},
            ])}
        return entry

    def send(self):
        return "send_message", self.entry()

    def ids(self, count):
        if self.chance.random() < 0.1:
            return ["e"] * count
        return [f"e{at}" for at in range(count)]

    def send_batch(self):
        ids = self.ids(self.chance.choice([0, 1, 2, 3, 3, 11]))
        return "send_message_batch", {"Entries": [{"Id": id_, **self.entry()} for id_ in ids]}

    def receive(self):
        more = {"MaxNumberOfMessages": 10}
        if self.chance.random() < 0.1:
            more["MaxNumberOfMessages"] = self.chance.choice([0, 11])
        if self.chance.random() < 0.3:
            more["VisibilityTimeout"] = self.chance.choice([0, 300, 43_201, -1])
        if self.chance.random() < 0.05:
            more["WaitTimeSeconds"] = self.chance.choice([21, -1])
        return "receive_message", {
            **more, "MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}

    def handle(self):
        return Handle(self.chance.randrange(8)) if self.chance.random() < 0.9 else "forged"

    def delete(self):
        return "delete_message", {"ReceiptHandle": self.handle()}

    def delete_batch(self):
        ids = self.ids(self.chance.choice([0, 1, 2]))
        entries = [{"Id": id_, "ReceiptHandle": self.handle()} for id_ in ids]
        return "delete_message_batch", {"Entries": entries}

    def visibility(self):
        seconds = self.chance.choice([0, 300, 43_201])
        return "change_message_visibility", {
            "ReceiptHandle": self.handle(), "VisibilityTimeout": seconds}

    def attributes_of(self):
        names = self.chance.choice([
            ["All"], ["VisibilityTimeout"], ["ApproximateNumberOfMessages"], ["Unknown"]])
        return "get_queue_attributes", {"AttributeNames": names}

    def set_attributes(self):
        name, value = self.chance.choice([
            ("VisibilityTimeout", "300"), ("VisibilityTimeout", "43201"), ("DelaySeconds", "901"),
            ("MessageRetentionPeriod", "59"), ("ReceiveMessageWaitTimeSeconds", "21"),
            ("Unknown", "1"), ("VisibilityTimeout", "x")])
        return "set_queue_attributes", {"Attributes": {name: value}}

    def tags(self):
        if self.chance.random() < 0.5:
            return "tag_queue", {"Tags": {"a": "1", "b": "é"}}
        return self.chance.choice([("untag_queue", {"TagKeys": ["a"]}), ("list_queue_tags", {})])


def differences(seed, urls):
    """Where the two differ in a script."""
    script = Script(seed)
    sides = [Side(url, script.name, script.attributes) for url in urls]
    if sides[0].made != sides[1].made:
        return [("create", script.attributes, *[side.made for side in sides])]
    found = []
    try:
        for action, parameters in script.calls():
            told = [side.call(action, parameters) for side in sides]
            if told[0] != told[1]:
                found.append((action, parameters, *told))
                # What one of them did and the other did not makes all that follows differ.
                if action not in READS and "ok" in [told[0][0], told[1][0]]:
                    break
        return found
    finally:
        for side in sides:
            side.told("delete_queue", QueueUrl=side.url)


def kind_of(difference):
    """Which known difference it is, if any."""
    found = (name for name, is_it in KNOWN.items() if is_it(*difference))
    return next(found, None)


def run(scripts, first, urls):
    """Runs scripts; how often each known difference came, and what is not known."""
    counts, unknown = collections.Counter(), []
    for seed in range(first, first + scripts):
        for difference in differences(seed, urls):
            kind = kind_of(difference)
            if kind is None:
                unknown.append((seed, difference))
            else:
                counts[kind] += 1
        if (seed + 1 - first) % 100 == 0:
            print(f"{seed + 1 - first} scripts, {len(unknown)} unknown differences", flush=True)
    return counts, unknown


def main():
    parser = argparse.ArgumentParser(prog="differ", description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first script")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="differ-")))
        theirs = stack.enter_context(clouds.elasticmq(folder))
        ours = stack.enter_context(servers.Server(folder))
        counts, unknown = run(chosen.scripts, chosen.seed, [theirs, ours.url])
    for kind, count in sorted(counts.items()):
        print(f"{count:5} scripts differ by: {kind}")
    for seed, (action, parameters, theirs, ours) in unknown[:10]:
        print(f"script {seed}: {action} {str(parameters)[:300]}\n"
              f"  ElasticMQ: {str(theirs)[:300]}\n  Fader:     {str(ours)[:300]}")
    print(f"{chosen.scripts} scripts, {sum(counts.values())} known differences, "
          f"{len(unknown)} unknown")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
