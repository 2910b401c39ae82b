"""An application of Celery: its tasks note in a folder that they were done."""

import os
import pathlib
import time

from celery import Celery

DONE = pathlib.Path(os.environ["DONE"])

app = Celery("application", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "us-east-1", "visibility_timeout": 5, "wait_time_seconds": 1,
        "polling_interval": 0.1, "queue_name_prefix": "celery-test-",
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


def note(name, text=""):
    with open(DONE / name, "a") as file:
        file.write(f"{text}\n")


@app.task
def plain(number, payload=""):
    note(f"plain-{number}", len(payload))


@app.task(bind=True, max_retries=3)
def flaky(self, number):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    note(f"flaky-{number}", self.request.retries)


@app.task
def add(one, other):
    return one + other


@app.task
def told(total, number):
    note(f"chain-{number}", total)


@app.task
def slow(number):
    note(f"began-{number}")
    time.sleep(1.5)
    note(f"slow-{number}")
