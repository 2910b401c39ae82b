"""SQS through boto3: JSON by default, and the Query protocol by hand-made forms."""

import concurrent.futures
import hashlib
import itertools
import json
import time
import urllib.error
import urllib.parse
import urllib.request

import boto3
import botocore.awsrequest

from server import ACCESS_KEY, Server
from sqs_calls import bodies, client_of, form, refused, signed

NUMBERS = itertools.count(1)


def test_a_message_is_sent_received_and_deleted(server, sqs, queue):
    assert queue.startswith(server.url + "/")
    sent = sqs.send_message(QueueUrl=queue, MessageBody="hello")
    assert sent["MD5OfMessageBody"] == hashlib.md5(b"hello").hexdigest()
    assert "MD5OfMessageAttributes" not in sent
    received = sqs.receive_message(QueueUrl=queue, MessageSystemAttributeNames=["All"])
    message = received["Messages"][0]
    assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert message["Attributes"]["SenderId"] == ACCESS_KEY
    assert bodies(sqs, queue) == []
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "0"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert counts["QueueArn"].endswith(queue.rsplit("/", 1)[1])


def test_attributes_have_the_checksum_of_aws(sqs, queue):
    attributes = {"k": {"DataType": "String", "StringValue": "v"}}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    assert sent["MD5OfMessageAttributes"] == "0a77b0642718c3d9dd47090567d11e0d"
    binary = {"b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    sqs.send_message(QueueUrl=queue, MessageBody="y", MessageAttributes=binary)
    received = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    shown = {message["Body"]: message["MessageAttributes"] for message in received["Messages"]}
    assert shown == {"x": attributes, "y": binary}


def test_batches_are_answered_entry_by_entry(sqs, queue):
    entries = [{"Id": str(at), "MessageBody": str(at)} for at in range(9)]
    entries.append({"Id": "bad", "MessageBody": "\x01"})
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert len(sent["Successful"]) == 9
    assert [it["Code"] for it in sent["Failed"]] == ["InvalidMessageContents"]
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    handles = [
        {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
        for at, message in enumerate(received)
    ]
    shown = [{**handle, "VisibilityTimeout": 100} for handle in handles]
    changed = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=shown)
    assert len(changed["Successful"]) == 9
    deleted = sqs.delete_message_batch(QueueUrl=queue, Entries=handles)
    assert len(deleted["Successful"]) == 9 and "Failed" not in deleted
    with refused("AWS.SimpleQueueService.TooManyEntriesInBatchRequest"):
        many = [{"Id": str(at), "MessageBody": "x"} for at in range(11)]
        sqs.send_message_batch(QueueUrl=queue, Entries=many)


def test_errors_are_those_that_programs_look_for(server, sqs, queue):
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        sqs.get_queue_url(QueueName="absent")
    try:
        sqs.get_queue_url(QueueName="absent")
    except sqs.exceptions.QueueDoesNotExist as error:
        assert error.response["Error"]["Message"] == "The specified queue does not exist."
    with refused("ReceiptHandleIsInvalid", 404):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle="no")
    with refused("QueueAlreadyExists"):
        name = queue.rsplit("/", 1)[1]
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "7"})
    with refused("InvalidParameterValue"):
        sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=11)
    sqs.purge_queue(QueueUrl=queue)
    with refused("AWS.SimpleQueueService.PurgeQueueInProgress", 403):
        sqs.purge_queue(QueueUrl=queue)
    wrong = boto3.client(
        "sqs", endpoint_url=server.url, region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key="wrong",
    )
    with refused("SignatureDoesNotMatch", 403):
        wrong.list_queues()


def test_a_long_poll_ends_with_the_message(sqs, queue):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(bodies, sqs, queue, WaitTimeSeconds=20)
        time.sleep(0.5)
        assert not waits.done()
        sqs.send_message(QueueUrl=queue, MessageBody="late")
        assert waits.result(timeout=15) == ["late"]


def test_a_long_poll_sees_a_delayed_message(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="slow", DelaySeconds=1)
    assert bodies(sqs, queue) == []
    assert bodies(sqs, queue, WaitTimeSeconds=20) == ["slow"]


def test_an_empty_long_poll_ends_by_itself(sqs, queue):
    assert bodies(sqs, queue, WaitTimeSeconds=1) == []


def test_each_message_goes_to_one_of_many_consumers(sqs, queue):
    def send(at):
        entries = [{"Id": str(n), "MessageBody": f"{at}-{n}"} for n in range(10)]
        assert len(sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == 10

    def consume(_):
        seen = []
        while True:
            received = sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=2
            )
            messages = received.get("Messages", [])
            if not messages:
                return seen
            for message in messages:
                seen.append(message["Body"])
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        consumers = [pool.submit(consume, at) for at in range(8)]
        list(pool.map(send, range(20)))
        seen = [body for consumer in consumers for body in consumer.result()]
    assert sorted(seen) == sorted(f"{at}-{n}" for at in range(20) for n in range(10))


def test_a_fifo_queue_keeps_order_and_drops_duplicates(sqs, fifo):
    for body in ["1", "2", "2", "3"]:
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="a")
    first = sqs.receive_message(QueueUrl=fifo)["Messages"][0]
    assert first["Body"] == "1"
    assert bodies(sqs, fifo) == []
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])
    assert bodies(sqs, fifo) == ["2", "3"]


def test_dead_letters_move_and_come_back(sqs, queue):
    dead = sqs.create_queue(QueueName=f"queue-{next(NUMBERS)}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    arn = arn["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    attributes = {"RedrivePolicy": policy, "VisibilityTimeout": "0"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    sqs.send_message(QueueUrl=queue, MessageBody="bad")
    assert bodies(sqs, queue) == ["bad"]
    assert bodies(sqs, queue) == []
    assert bodies(sqs, dead, VisibilityTimeout=0) == ["bad"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]
    sqs.start_message_move_task(SourceArn=arn)
    deadline = time.monotonic() + 30
    while True:
        task = sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]
        if task["Status"] != "RUNNING":
            break
        assert time.monotonic() < deadline, task
        time.sleep(0.1)
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    assert bodies(sqs, queue) == ["bad"]
    sqs.delete_queue(QueueUrl=dead)


def test_queues_are_listed_and_tagged(sqs):
    urls = [
        sqs.create_queue(QueueName=f"listed-{at}", tags={"at": str(at)})["QueueUrl"]
        for at in range(3)
    ]
    assert sqs.list_queues(QueueNamePrefix="listed-")["QueueUrls"] == urls
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix="listed-", PaginationConfig={"PageSize": 2}
    )
    assert [url for page in pages for url in page["QueueUrls"]] == urls
    assert sqs.list_queue_tags(QueueUrl=urls[2])["Tags"] == {"at": "2"}
    for url in urls:
        sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="listed-")


def test_the_query_protocol_does_the_same(server, sqs, queue):
    path = urllib.parse.urlparse(queue).path
    status, text = form(server, path, Action="SendMessage", MessageBody="a <b> & c")
    assert status == 200 and "<MD5OfMessageBody>" in text and "> <" not in text
    status, text = form(
        server, Action="ReceiveMessage", QueueUrl=queue, **{"AttributeName.1": "All"}
    )
    assert status == 200 and "<Body>a &lt;b&gt; &amp; c</Body>" in text
    assert "<Attribute><Name>SenderId</Name><Value>" in text
    handle = text.split("<ReceiptHandle>")[1].split("</ReceiptHandle>")[0]
    status, text = form(server, path, Action="DeleteMessage", ReceiptHandle=handle)
    assert status == 200 and text.startswith('<?xml version="1.0"?><DeleteMessageResponse xmlns=')
    status, text = form(server, Action="GetQueueUrl", QueueName="absent")
    assert status == 400
    assert "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>" in text
    assert "<Type>Sender</Type>" in text
    batch = {
        "SendMessageBatchRequestEntry.1.Id": "a",
        "SendMessageBatchRequestEntry.1.MessageBody": "one",
        "SendMessageBatchRequestEntry.2.Id": "b",
        "SendMessageBatchRequestEntry.2.MessageBody": "two",
    }
    status, text = form(server, path, Action="SendMessageBatch", **batch)
    assert status == 200 and text.count("<SendMessageBatchResultEntry>") == 2
    assert sorted(bodies(sqs, queue)) == ["one", "two"]


def test_a_peek_is_a_read_in_both_protocols(server, sqs, queue):
    for body in ("one", "two"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    shown = form(server, Action="PeekMessages", QueueUrl=queue, MaxNumberOfMessages="1")
    assert shown[0] == 200 and "<Body>one</Body>" in shown[1] and "<Body>two" not in shown[1]
    after = shown[1].split("<After>")[1].split("<")[0]
    assert f"<Name>SequenceNumber</Name><Value>{after}<" in shown[1]
    status, text = peek(server, queue, After=after)
    assert status == 200
    assert [message["Body"] for message in json.loads(text)["Messages"]] == ["two"]
    end = json.loads(text)["After"]
    assert json.loads(peek(server, queue, After=end)[1])["After"] == end
    assert sorted(bodies(sqs, queue)) == ["one", "two"]
    assert [it["Body"] for it in json.loads(peek(server, queue)[1])["Messages"]] == ["one", "two"]
    assert peek(server, queue + "-absent")[0] == 400


def peek(server, queue, **parameters):
    """What PeekMessages is answered in JSON."""
    request = botocore.awsrequest.AWSRequest(
        method="POST",
        url=server.url + "/",
        data=json.dumps({"QueueUrl": queue, **parameters}),
        headers={
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "AmazonSQS.PeekMessages",
        },
    )
    return signed(request)


def test_a_policy_lets_unsigned_requests_in(server, sqs, queue):
    def unsigned():
        parameters = {"Action": "SendMessage", "Version": "2012-11-05", "MessageBody": "open"}
        data = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(queue, data=data)) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    assert unsigned() == 403
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"}
    statement["Condition"] = {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    assert unsigned() == 200
    assert bodies(sqs, queue) == ["open"]


def test_queues_and_messages_survive_a_kill(tmp_path):
    with Server(tmp_path) as first:
        sqs = client_of(first)
        queue = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        for at in range(30):
            sqs.send_message(QueueUrl=queue, MessageBody=str(at))
        held = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
        for message in held[:5]:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        first.process.kill()
        first.process.wait()
    with Server(tmp_path) as second:
        sqs = client_of(second)
        queue = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
        seen = [body for _ in range(3) for body in bodies(sqs, queue)]
        assert sorted(map(int, seen)) == list(range(10, 30))
        for message in held[5:]:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert counts["ApproximateNumberOfMessagesNotVisible"] == "20"


def test_a_request_that_is_repeated_under_its_name_is_done_once(sqs, queue):
    def name(request, **_):
        request.headers["x-fader-request"] = "ab12/1"

    sqs.meta.events.register("before-sign.sqs.SendMessage", name)
    try:
        sent = [sqs.send_message(QueueUrl=queue, MessageBody="once") for _ in range(2)]
    finally:
        sqs.meta.events.unregister("before-sign.sqs.SendMessage", name)
    assert sent[0]["MessageId"] == sent[1]["MessageId"]
    assert bodies(sqs, queue) == ["once"]
