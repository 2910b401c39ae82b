"""Drives an SQS endpoint with a botocore that speaks the Query protocol: `ok NAME` lines.

It runs in an environment of its own. botocore itself compares no MD5 sums; so they are compared
here."""

import hashlib
import json
import os

import botocore.session
from botocore.exceptions import ClientError

SESSION = botocore.session.get_session()
SQS = SESSION.create_client(
    "sqs", region_name="us-east-1", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
)


def create():
    assert SQS.meta.service_model.protocol == "query"
    url = SQS.create_queue(QueueName="query", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    assert SQS.get_queue_url(QueueName="query")["QueueUrl"] == url
    assert url in SQS.list_queues(QueueNamePrefix="que")["QueueUrls"]
    return url


def send_and_receive(queue):
    body = "größe & <more> a+b %20 ~\r\n\t]]>"
    attributes = {"b": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
                  "n": {"DataType": "Number", "StringValue": "7"}}
    sent = SQS.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    received = SQS.receive_message(
        QueueUrl=queue, AttributeNames=["All"], MessageAttributeNames=["All"],
    )
    message = received["Messages"][0]
    assert (message["Body"], message["MessageAttributes"]) == (body, attributes), message
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    SQS.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in SQS.receive_message(QueueUrl=queue)


def batches(queue):
    entries = [{"Id": f"e{at}", "MessageBody": str(at)} for at in range(9)]
    entries.append({"Id": "bad", "MessageBody": "x", "DelaySeconds": 901})
    sent = SQS.send_message_batch(QueueUrl=queue, Entries=entries)
    assert len(sent["Successful"]) == 9, sent
    assert [failed["Code"] for failed in sent["Failed"]] == ["InvalidParameterValue"], sent
    found = SQS.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    handles = [{"Id": it["Body"], "ReceiptHandle": it["ReceiptHandle"]} for it in found]
    assert len(SQS.delete_message_batch(QueueUrl=queue, Entries=handles)["Successful"]) == 9


def attributes_and_tags(queue):
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Deny", "Principal": "*", "Action": "sqs:PurgeQueue", "Resource": "*"}]}
    SQS.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    shown = SQS.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert json.loads(shown["Policy"])["Statement"][0]["Effect"] == "Deny", shown
    SQS.tag_queue(QueueUrl=queue, Tags={"a": "1", "b": "2"})
    SQS.untag_queue(QueueUrl=queue, TagKeys=["a"])
    assert SQS.list_queue_tags(QueueUrl=queue)["Tags"] == {"b": "2"}


def errors(queue):
    for call, parameters, code in [
        (SQS.get_queue_url, {"QueueName": "absent"}, "AWS.SimpleQueueService.NonExistentQueue"),
        (SQS.delete_message, {"QueueUrl": queue, "ReceiptHandle": "x"}, "ReceiptHandleIsInvalid"),
        (SQS.purge_queue, {"QueueUrl": queue}, "AccessDenied"),
    ]:
        try:
            call(**parameters)
        except ClientError as error:
            assert error.response["Error"]["Code"] == code, error.response
        else:
            raise AssertionError(f"no {code}")
    try:
        SQS.get_queue_url(QueueName="absent")
    except SQS.exceptions.QueueDoesNotExist:
        pass


def main():
    queue = create()
    print("ok create")
    for check in [send_and_receive, batches, attributes_and_tags, errors]:
        check(queue)
        print("ok", check.__name__)
    SQS.delete_queue(QueueUrl=queue)
    print("ok delete")


main()
