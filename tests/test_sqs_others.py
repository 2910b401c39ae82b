"""Behaviours of SQS that the tests of ElasticMQ and goaws ask for. Where AWS's documentation says
otherwise, what that says is tested. The page docs/reference/compatibility/sqs.md has a row for
each."""

import concurrent.futures
import hashlib
import itertools
import json
import time

import pytest

from sqs_calls import bodies, form, refused

NUMBERS = itertools.count(1)
MAX_BYTES = 1 << 20


def arn_of(sqs, url):
    names = ["QueueArn"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]["QueueArn"]


@pytest.fixture
def dead(sqs):
    """Makes a queue with a dead-letter queue: both URLs."""
    made = []

    def make(receives, **attributes):
        end = ".fifo" if attributes.get("FifoQueue") else ""
        name = f"other-{next(NUMBERS)}"
        letters = sqs.create_queue(QueueName=f"{name}-dead{end}", Attributes=attributes)["QueueUrl"]
        policy = {"deadLetterTargetArn": arn_of(sqs, letters), "maxReceiveCount": receives}
        more = {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "0"}
        source = sqs.create_queue(QueueName=name + end, Attributes=attributes | more)["QueueUrl"]
        made.extend([letters, source])
        return source, letters

    yield make
    for url in made:
        sqs.delete_queue(QueueUrl=url)


def send_to(sqs, url, body, group="1", **more):
    return sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **more)


def received(sqs, url, **more):
    more = {"MessageSystemAttributeNames": ["All"], "MaxNumberOfMessages": 10} | more
    return sqs.receive_message(QueueUrl=url, **more).get("Messages", [])


# ElasticMQ

def test_concurrent_creations_of_a_queue_have_one_url(sqs):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda _: sqs.create_queue(QueueName="race")["QueueUrl"], range(16))
        urls = set(made)
    assert len(urls) == 1
    sqs.delete_queue(QueueUrl=urls.pop())


def test_of_different_creations_of_a_queue_one_wins(sqs):
    def create(seconds):
        try:
            attributes = {"VisibilityTimeout": str(seconds)}
            return sqs.create_queue(QueueName="race-2", Attributes=attributes)["QueueUrl"]
        except sqs.exceptions.QueueNameExists:
            return None

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        urls = [url for url in pool.map(create, range(8)) if url]
    assert len(urls) == 1
    sqs.delete_queue(QueueUrl=urls[0])


def test_an_id_that_is_given_goes_before_that_of_the_body(sqs, fifo):
    send_to(sqs, fifo, "same", MessageDeduplicationId="1")
    send_to(sqs, fifo, "same", MessageDeduplicationId="2")
    assert bodies(sqs, fifo) == ["same", "same"]


def test_a_duplicate_has_the_checksums_of_what_it_sent(sqs, fifo):
    sent = [
        send_to(sqs, fifo, body, MessageDeduplicationId="one",
                MessageAttributes={"k": {"DataType": "String", "StringValue": body}})
        for body in ["first", "second"]
    ]
    assert sent[0]["MessageId"] == sent[1]["MessageId"]
    assert sent[0]["SequenceNumber"] == sent[1]["SequenceNumber"]
    assert sent[1]["MD5OfMessageBody"] == hashlib.md5(b"second").hexdigest()
    assert sent[0]["MD5OfMessageAttributes"] != sent[1]["MD5OfMessageAttributes"]
    assert bodies(sqs, fifo) == ["first"]


def test_the_id_of_a_dead_letter_is_known_in_its_queue_and_its_own_in_the_other(sqs, dead):
    source, letters = dead(1, FifoQueue="true")
    first = send_to(sqs, source, "1", MessageDeduplicationId="id")
    assert bodies(sqs, source) == ["1"]
    assert bodies(sqs, source) == []
    again = send_to(sqs, source, "2", MessageDeduplicationId="id")
    assert again["MessageId"] == first["MessageId"]
    assert bodies(sqs, source) == []
    send_to(sqs, letters, "3", MessageDeduplicationId="id", group="2")
    found = {message["Body"]: message for message in received(sqs, letters)}
    assert set(found) == {"1", "3"}
    assert found["1"]["MessageId"] == first["MessageId"]
    assert found["1"]["Attributes"]["MessageDeduplicationId"] == first["MessageId"]
    assert found["3"]["Attributes"]["MessageDeduplicationId"] == "id"


def test_a_fifo_queue_has_its_ending(sqs):
    with refused("InvalidParameterValue"):
        sqs.create_queue(QueueName="no-ending", Attributes={"FifoQueue": "true"})


@pytest.mark.parametrize("group", ["", "x" * 129, "a b", "é"])
def test_groups_have_characters_and_a_length(sqs, fifo, group):
    with pytest.raises(sqs.exceptions.ClientError) as error:
        send_to(sqs, fifo, "x", group)
    assert error.value.response["Error"]["Code"] in ["InvalidParameterValue", "MissingParameter"]


def test_a_message_of_a_fifo_queue_has_no_delay_but_zero(sqs, fifo):
    with refused("InvalidParameterValue"):
        send_to(sqs, fifo, "late", DelaySeconds=10)
    send_to(sqs, fifo, "now", DelaySeconds=0)
    assert bodies(sqs, fifo) == ["now"]


def test_a_group_is_blocked_for_the_visibility(sqs, fifo):
    for body in ["1", "2"]:
        send_to(sqs, fifo, body)
    assert [it["Body"] for it in received(sqs, fifo, MaxNumberOfMessages=1,
                                          VisibilityTimeout=1)] == ["1"]
    assert bodies(sqs, fifo) == []
    assert bodies(sqs, fifo, WaitTimeSeconds=10)[0] == "1"


def test_system_attributes_are_all_there(sqs, fifo, queue):
    send_to(sqs, fifo, "x", MessageDeduplicationId="123", group="456")
    shown = received(sqs, fifo)[0]["Attributes"]
    assert (shown["MessageDeduplicationId"], shown["MessageGroupId"]) == ("123", "456")
    assert {"SenderId", "SentTimestamp", "ApproximateReceiveCount", "SequenceNumber",
            "ApproximateFirstReceiveTimestamp"} < set(shown)
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    shown = received(sqs, queue)[0]["Attributes"]
    assert not {"MessageDeduplicationId", "MessageGroupId", "SequenceNumber"} & set(shown)


@pytest.mark.parametrize("kind, value", [("String", ""), ("Number", ""), ("", "x")])
def test_an_attribute_has_a_type_and_a_value(sqs, queue, kind, value):
    attribute = {"k": {"DataType": kind, "StringValue": value}}
    with refused("InvalidParameterValue"):
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attribute)
    entries = [{"Id": "1", "MessageBody": "good"},
               {"Id": "2", "MessageBody": "bad", "MessageAttributes": attribute}]
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [it["Id"] for it in sent["Successful"]] == ["1"]
    assert [it["Id"] for it in sent["Failed"]] == ["2"]
    assert bodies(sqs, queue) == ["good"]


def test_a_body_has_from_one_byte_to_one_mebibyte(sqs, queue):
    with pytest.raises(sqs.exceptions.ClientError):
        sqs.send_message(QueueUrl=queue, MessageBody="")
    sqs.send_message(QueueUrl=queue, MessageBody="x" * MAX_BYTES)
    with refused("InvalidParameterValue"):
        sqs.send_message(QueueUrl=queue, MessageBody="x" * (MAX_BYTES + 1))
    assert [len(body) for body in bodies(sqs, queue)] == [MAX_BYTES]


def test_only_attributes_that_are_asked_for_are_shown(sqs, queue):
    attributes = {name: {"DataType": "String", "StringValue": name} for name in ["a", "b"]}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    shown = received(sqs, queue, MessageAttributeNames=["b"], VisibilityTimeout=0)[0]
    assert set(shown["MessageAttributes"]) == {"b"}
    assert "MessageAttributes" not in received(sqs, queue, VisibilityTimeout=0)[0]


def test_a_trace_header_comes_back(sqs, queue):
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageSystemAttributes=system)
    assert received(sqs, queue)[0]["Attributes"]["AWSTraceHeader"] == trace
    sqs.send_message(QueueUrl=queue, MessageBody="y")
    assert "AWSTraceHeader" not in received(sqs, queue)[0]["Attributes"]


def test_the_trace_of_a_request_is_that_of_its_messages_but_for_their_own(sqs, queue):
    of_request, own = "Root=1-5759e988-bd862e3fe1be46a994272793", "Root=1-own"

    def trace(request, **_):
        request.headers["X-Amzn-Trace-Id"] = of_request

    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": own}}
    entries = [
        {"Id": "a", "MessageBody": "a"},
        {"Id": "b", "MessageBody": "b", "MessageSystemAttributes": system},
    ]
    sqs.meta.events.register("before-sign.sqs.*", trace)
    try:
        sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
    finally:
        sqs.meta.events.unregister("before-sign.sqs.*", trace)
    # Only what was sent as an attribute has a checksum.
    assert ["MD5OfMessageSystemAttributes" in it for it in sent] == [False, True]
    traces = {it["Body"]: it["Attributes"]["AWSTraceHeader"] for it in received(sqs, queue)}
    assert traces == {"a": of_request, "b": own}


def letters(sqs, source, count):
    for at in range(count):
        sqs.send_message(QueueUrl=source, MessageBody=str(at))
    for _ in range(2 * count):
        received(sqs, source)


def test_move_tasks_are_listed_the_newest_first_and_cancelled(sqs, dead):
    source, queue = dead(1)
    letters(sqs, source, 3)
    arn = arn_of(sqs, queue)
    sqs.start_message_move_task(SourceArn=arn)
    deadline = time.monotonic() + 30
    while sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for _ in range(6):
        received(sqs, source)
    handle = sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)
    with refused("InvalidParameterValue"):
        sqs.start_message_move_task(SourceArn=arn)
    tasks = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=10)["Results"]
    assert [task["Status"] for task in tasks] == ["RUNNING", "COMPLETED"]
    assert tasks[0]["TaskHandle"] == handle["TaskHandle"]
    moved = sqs.cancel_message_move_task(TaskHandle=handle["TaskHandle"])
    assert moved["ApproximateNumberOfMessagesMoved"] < 3
    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.cancel_message_move_task(TaskHandle=handle["TaskHandle"])
    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.list_message_move_tasks(SourceArn=arn + "-absent")
    with refused("InvalidParameterValue"):
        sqs.cancel_message_move_task(TaskHandle="absent")


@pytest.mark.parametrize("name", ["x" * 81, "a b", "a*b", "a.b", ""])
def test_names_of_queues_have_characters_and_a_length(sqs, name):
    with refused("InvalidParameterValue"):
        sqs.create_queue(QueueName=name)


def test_batches_of_more_than_nine_keep_their_order_in_query(server, sqs, queue):
    entries = {}
    for at in range(1, 11):
        entries[f"SendMessageBatchRequestEntry.{at}.Id"] = f"e{at}"
        entries[f"SendMessageBatchRequestEntry.{at}.MessageBody"] = str(at)
    status, text = form(server, "/", Action="SendMessageBatch", QueueUrl=queue, **entries)
    assert status == 200
    assert [part.split("</Id>")[0] for part in text.split("<Id>")[1:]] == [
        f"e{at}" for at in range(1, 11)]


# goaws

@pytest.mark.parametrize("count", [3, "3"])
def test_a_receive_count_is_a_number_or_its_text(sqs, dead, count):
    source, _ = dead(count)
    shown = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["RedrivePolicy"])
    assert int(json.loads(shown["Attributes"]["RedrivePolicy"])["maxReceiveCount"]) == 3


@pytest.mark.parametrize("policy", [
    "no JSON", "{}", '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000001:absent", '
    '"maxReceiveCount": 3}', '{"deadLetterTargetArn": "x", "maxReceiveCount": "many"}',
])
def test_a_policy_that_is_none_is_refused(sqs, queue, policy):
    with pytest.raises(sqs.exceptions.ClientError) as error:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert error.value.response["Error"]["Code"] in ["InvalidParameterValue",
                                                     "InvalidAttributeValue"]


def test_attributes_that_are_zero_are_set(sqs, queue):
    zero = {"DelaySeconds": "0", "VisibilityTimeout": "0", "ReceiveMessageWaitTimeSeconds": "0"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=zero)
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[*zero])["Attributes"]
    assert shown == zero


def test_attributes_that_are_not_asked_for_are_not_shown(sqs, queue):
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue)


def test_a_visibility_has_a_limit_and_a_message(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    handle = received(sqs, queue)[0]["ReceiptHandle"]
    with refused("InvalidParameterValue"):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle,
                                      VisibilityTimeout=43_201)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    with refused("InvalidParameterValue"):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=10)


def test_a_message_that_is_shown_again_too_often_moves(sqs, dead):
    source, letters = dead(1)
    sqs.send_message(QueueUrl=source, MessageBody="x")
    handle = received(sqs, source, VisibilityTimeout=60)[0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=source, ReceiptHandle=handle, VisibilityTimeout=0)
    assert bodies(sqs, source) == []
    assert bodies(sqs, letters) == ["x"]


@pytest.mark.parametrize("action, entries, code", [
    ("send_message_batch", [], "EmptyBatchRequest"),
    ("delete_message_batch", [], "EmptyBatchRequest"),
    ("send_message_batch", [{"Id": "a", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct"),
    ("delete_message_batch", [{"Id": "a", "ReceiptHandle": "x"}] * 2, "BatchEntryIdsNotDistinct"),
])
def test_batches_have_entries_that_differ(sqs, queue, action, entries, code):
    with refused(f"AWS.SimpleQueueService.{code}"):
        getattr(sqs, action)(QueueUrl=queue, Entries=entries)


def test_a_deletion_tells_entry_by_entry_what_is_forged(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    handle = received(sqs, queue)[0]["ReceiptHandle"]
    entries = [{"Id": "good", "ReceiptHandle": handle}, {"Id": "bad", "ReceiptHandle": "forged"}]
    told = sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
    assert [it["Id"] for it in told["Successful"]] == ["good"]
    assert [it["Code"] for it in told["Failed"]] == ["ReceiptHandleIsInvalid"]


def test_a_fifo_queue_without_content_based_ids_wants_one(sqs):
    url = sqs.create_queue(QueueName="ids.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    with refused("InvalidParameterValue"):
        send_to(sqs, url, "x")
    sqs.delete_queue(QueueUrl=url)


def test_an_id_of_a_standard_queue_is_refused(sqs, queue):
    with refused("InvalidParameterValue"):
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageDeduplicationId="id")


def test_a_message_is_not_longer_than_its_queue_says(sqs, queue):
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumMessageSize": "1024"})
    with refused("InvalidParameterValue"):
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 1025)


@pytest.mark.parametrize("action", ["delete_queue", "purge_queue", "receive_message",
                                    "get_queue_attributes", "list_queue_tags"])
def test_a_queue_that_is_not_there_is_told(sqs, queue, action):
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        getattr(sqs, action)(QueueUrl=queue + "-absent")


def test_receives_and_deletions_beside_each_other_are_all_served(sqs, queue):
    for at in range(20):
        sqs.send_message(QueueUrl=queue, MessageBody=str(at))

    def consume(_):
        seen = []
        while messages := received(sqs, queue, MaxNumberOfMessages=3):
            for message in messages:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                seen.append(int(message["Body"]))
        return seen

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        seen = list(itertools.chain(*pool.map(consume, range(4))))
    assert sorted(seen) == list(range(20))
