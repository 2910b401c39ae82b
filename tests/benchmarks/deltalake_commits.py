"""`python deltalake_commits.py URL ENDPOINT CLIENTS SECONDS`: appends to a table of Delta Lake.

Each client is a thread with a table of its own, as it last read it. The library does not hold
Python's lock while it works. An append writes one Parquet file of one row, and commits it by
creating the next entry of the log. A client that lost that race reads the log and tries the next
entry, as often as it takes. Prints what was committed within the time, what was committed later,
and how many rows the table then has."""

import json
import sys
import threading
import time

import arro3.core
import deltalake

URL, ENDPOINT = sys.argv[1:3]
CLIENTS, SECONDS = int(sys.argv[3]), float(sys.argv[4])
OPTIONS = {
    "AWS_ENDPOINT_URL": ENDPOINT, "AWS_ALLOW_HTTP": "true",
    "AWS_REGION": "us-east-1", "aws_conditional_put": "etag",
    "aws_virtual_hosted_style_request": "false",
}
VALUE = "." * 100
TRIES = deltalake.CommitProperties(max_commit_retries=1_000_000)


def row(key):
    fields = {"key": [key], "value": [VALUE]}
    arrays = [arro3.core.Array(values, arro3.core.DataType.string()) for values in fields.values()]
    return arro3.core.Table.from_arrays(arrays, names=list(fields))


def append(table, key):
    deltalake.write_deltalake(table, row(key), mode="append", storage_options=OPTIONS,
                              commit_properties=TRIES)


def client(number, counts, begin):
    table = deltalake.DeltaTable(URL, storage_options=OPTIONS)
    begin.wait()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        append(table, f"{number:04}-{sum(counts[number])}")
        counts[number][until < time.monotonic()] += 1


append(URL, "first")
counts = [[0, 0] for _ in range(CLIENTS)]
begin = threading.Barrier(CLIENTS)
threads = [threading.Thread(target=client, args=(number, counts, begin))
           for number in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
table = deltalake.DeltaTable(URL, storage_options=OPTIONS)
rows = sum(table.get_add_actions()["num_records"].to_pylist())
within, late = map(sum, zip(*counts))
print(json.dumps({"within": within, "late": late, "records": rows - 1}))
