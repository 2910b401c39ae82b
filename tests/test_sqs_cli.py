"""`fader sqs`: the small client."""

import itertools
import json
import signal
import subprocess
import time
import urllib.request

import pytest

import server as servers
from server import BINARY, environment, fader
from sqs_calls import bodies, client_of

NUMBERS = itertools.count(1)
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def sqs(server):
    return client_of(server)


@pytest.fixture
def cli(server, tmp_path):
    def run(*arguments, **more):
        signing = servers.signing(server.url)
        return fader("sqs", *map(str, arguments), home=tmp_path, **signing, **more)

    return run


@pytest.fixture
def start(server, tmp_path):
    """Starts a command that is not awaited."""
    begun = []

    def run(*arguments):
        process = subprocess.Popen(
            [BINARY, "sqs", *map(str, arguments)],
            env=environment(tmp_path, **servers.signing(server.url)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def name(cli):
    name = f"cli-{next(NUMBERS)}"
    cli("create", name)
    yield name
    cli("delete", name, check=False)


def attributes(sqs, name):
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def lines_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_queues_are_created_changed_listed_and_deleted(server, sqs, cli):
    done = cli("create", "made", "--visibility", "60s", "--delay", "1", "--retention", "1d",
               "--dead-letter", "made-failed:5", "--tag", "team=a")
    assert done.stdout.strip().endswith("/made")
    assert "made-failed" in done.stderr
    shown = attributes(sqs, "made")
    assert (shown["VisibilityTimeout"], shown["DelaySeconds"]) == ("60", "1")
    assert shown["MessageRetentionPeriod"] == "86400"
    assert json.loads(shown["RedrivePolicy"])["maxReceiveCount"] == 5
    assert attributes(sqs, "made-failed")["MessageRetentionPeriod"] == "1209600"
    url = sqs.get_queue_url(QueueName="made")["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a"}
    assert cli("queues", "made").stdout.split() == ["made", "made-failed"]
    details = cli("queues", "made", "--details").stdout
    assert "made-failed after 5 receives" in details
    assert lines_of(cli("queues", "made", "--json"))[0]["attributes"] == shown
    cli("set", "made", "--visibility", "5m", "--no-dead-letter")
    shown = attributes(sqs, "made")
    assert shown["VisibilityTimeout"] == "300" and "RedrivePolicy" not in shown
    assert "VisibilityTimeout" in cli("stat", "made").stdout
    assert lines_of(cli("stat", url, "--json"))[0]["queue"] == "made"
    for queue in ("made", "made-failed"):
        cli("delete", queue)
    assert cli("queues", "made").stdout == ""


def test_mistakes_are_told_with_what_to_do(cli, name, tmp_path):
    for arguments, words in [
        (("send", "absent", "x"), "fader sqs queues"),
        (("create", name, "--visibility", "7s"), "fader sqs set"),
        (("set", name), "nothing to change"),
        (("create", "a.fifo", "--dead-letter", "b:1"), "b.fifo"),
    ]:
        failed = cli(*arguments, check=False)
        assert failed.returncode == 1 and words in failed.stderr, failed.stderr
    for arguments in [("create", "x", "--visibility", "1y"), ("receive", name, "--wait", "21s"),
                      ("create", "x", "--dead-letter", "y")]:
        assert cli(*arguments, check=False).returncode == 2
    failed = fader("sqs", "queues", "--endpoint", "http://127.0.0.1:1", home=tmp_path,
                   check=False, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
    assert failed.returncode == 1 and "is the server running" in failed.stderr


def test_lines_are_sent_in_batches_and_bad_ones_are_named(sqs, cli, name):
    text = "".join(f"line {at}\n" for at in range(1, 36)) + "bad\x01\n\nlast"
    failed = cli("send", name, text=text, check=False)
    assert failed.returncode == 1
    assert "36 messages sent, 2 rejected" in failed.stderr
    assert "line 36: InvalidMessageContents" in failed.stderr and "line 37: " in failed.stderr
    received = cli("receive", name, "--max", "100", "--delete").stdout.splitlines()
    assert sorted(received) == sorted([f"line {at}" for at in range(1, 36)] + ["last"])
    cli("send", name, text=text.split("bad")[0], check=False)
    cli("send", name, "--from-line", "34", text="x\n" * 34 + "y\n")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    assert attributes(sqs, name)["ApproximateNumberOfMessages"] == "37"
    cli("purge", name)
    assert bodies(sqs, url) == []


def test_messages_come_back_as_lines_that_are_sent_again(cli, name):
    cli("send", name, "hello", "two\nlines", "--attribute", "color=red")
    received = cli("receive", name, "--json")
    shown = sorted(lines_of(received), key=lambda it: it["body"])
    assert [it["body"] for it in shown] == ["hello", "two\nlines"]
    assert shown[0]["attributes"] == {"color": {"type": "String", "value": "red"}}
    assert shown[0]["receives"] == 1
    cli("send", name, "--json", text=received.stdout)
    again = lines_of(cli("receive", name, "--json"))
    assert sorted(it["body"] for it in again) == ["hello", "two\nlines"]
    assert all(it["attributes"] == shown[0]["attributes"] for it in again)
    handles = [it["receipt_handle"] for it in shown + again]
    cli("remove", name, *handles)
    failed = cli("remove", name, "forged", check=False)
    assert failed.returncode == 1 and "ReceiptHandleIsInvalid" in failed.stderr
    assert cli("receive", name).stdout == ""


def test_a_fifo_queue_keeps_the_order_of_lines(cli):
    cli("create", "ordered", "--fifo")
    failed = cli("send", "ordered.fifo", "x", check=False)
    assert failed.returncode == 1 and "--group" in failed.stderr
    failed = cli("send", "ordered.fifo", "x", "--group", "g", check=False)
    assert failed.returncode == 1 and "--unique" in failed.stderr
    lines = [str(at) for at in range(50)]
    cli("send", "ordered.fifo", "--group", "g", "--unique", text="\n".join(lines))
    got = cli("receive", "ordered.fifo", "--max", "50", "--delete").stdout.split()
    assert got == lines
    cli("delete", "ordered.fifo")


def test_a_receive_waits_and_an_interrupt_ends_it(server, sqs, cli, start, name):
    waits = start("receive", name, "--wait", "20s", "--delete")
    await_waiting(server)
    cli("send", name, "late")
    assert waits.communicate(timeout=SECONDS_MAX)[0] == "late\n"
    waits = start("receive", name, "--wait", "20s")
    await_waiting(server)
    waits.send_signal(signal.SIGINT)
    assert waits.wait(SECONDS_MAX) == 130
    follows = start("receive", name, "--follow", "--delete")
    await_waiting(server)
    cli("send", name, "one", "two")
    got = sorted(follows.stdout.readline() for _ in range(2))
    assert got == ["one\n", "two\n"]
    await_waiting(server)
    follows.send_signal(signal.SIGINT)
    assert follows.wait(SECONDS_MAX) == 0
    assert attributes(sqs, name)["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_tail_shows_and_changes_nothing(sqs, cli, start, name):
    cli("send", name, *(str(at) for at in range(25)))
    follows = start("tail", name)
    seen = [follows.stdout.readline() for _ in range(25)]
    assert sorted(map(int, seen)) == list(range(25))
    held = cli("receive", name, "--json")
    assert all(it["receives"] == 1 for it in lines_of(held))
    cli("send", name, "delayed", "--delay", "900")
    assert follows.stdout.readline() == "delayed\n"
    follows.send_signal(signal.SIGINT)
    assert follows.wait(SECONDS_MAX) == 0
    shown = lines_of(cli("tail", name, "--no-follow", "--json"))
    assert len(shown) == 26 and "receipt_handle" not in shown[0]
    counts = attributes(sqs, name)
    assert counts["ApproximateNumberOfMessages"] == "15"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "10"
    assert counts["ApproximateNumberOfMessagesDelayed"] == "1"


def test_dead_letters_go_back_with_progress(sqs, cli):
    cli("create", "works", "--visibility", "0s", "--dead-letter", "letters:1")
    cli("send", "works", *(str(at) for at in range(20)))
    work = sqs.get_queue_url(QueueName="works")["QueueUrl"]
    while attributes(sqs, "letters")["ApproximateNumberOfMessages"] != "20":
        bodies(sqs, work)
    cli("redrive", "letters", "--rate", "1", "--no-wait")
    cancelled = cli("redrive", "letters", "--cancel")
    assert "messages moved" in cancelled.stderr
    done = cli("redrive", "letters", "--rate", "500")
    assert "messages moved" in done.stderr
    assert attributes(sqs, "letters")["ApproximateNumberOfMessages"] == "0"
    assert attributes(sqs, "works")["ApproximateNumberOfMessages"] == "20"
    failed = cli("redrive", "works", check=False)
    assert failed.returncode == 1
    for queue in ("works", "letters"):
        cli("delete", queue)


def test_an_interrupted_send_says_where_to_go_on(sqs, start, name):
    sends = start("send", name)
    sends.stdin.write("".join(f"{at}\n" for at in range(1, 11)))
    sends.stdin.flush()
    deadline = time.monotonic() + SECONDS_MAX
    while attributes(sqs, name)["ApproximateNumberOfMessages"] != "10":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    sends.send_signal(signal.SIGINT)
    errors = sends.stderr.read()
    assert sends.wait(SECONDS_MAX) == 130
    assert "10 messages sent" in errors and "--from-line 11" in errors


def await_waiting(server):
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        with urllib.request.urlopen(f"{server.url}/metrics") as page:
            if b"\nfader_waiting_requests 1\n" in page.read():
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)
