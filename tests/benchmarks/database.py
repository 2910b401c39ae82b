"""The paper's bookstore in virtual time, the database beside Delta Lake, and beside SQLite.

Delta Lake and the database are at one S3 server that lets each request wait (`hot_collection.py`).

On one folder both import in order and in random order, and scan. Point reads find all in memory.

SQLite writes a WITHOUT ROWID table with synchronous=FULL; its reads are those of a prepared SELECT
in C (`sqlite_reads.c`), ours those of one transaction (`fader-bench reads`). Both sides run in
turns. An imported record of ours is a JSON object with its key in it, so it has some 40 bytes
more. In random order SQLite is stopped once it has taken twice as long as ours."""

import contextlib
import itertools
import json
import math
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time

import server as servers
from benchmarks import hot_collection, mapreduce

HERE = pathlib.Path(__file__).parent
RECORDS, RECORDS_SMALL = 10_000_000, 20_000
READ_RECORDS = 1_000_000
READS = 300_000
# A key and a value of 100 bytes together.
VALUE_BYTES = 84
BATCH = 10_000
# In random order SQLite is stopped when it has taken so many times as long.
STOP_TIMES = 2


LEVELS = ["basic", "monotonic", "atomic"]


def bookstore(report, name, words, fastest, price_max):
    """Times and prices of each level as ratios to Naive's, of `fader measure bookstore`.
    `fastest` has the least ratio of times for each level; none is judged without."""
    said = subprocess.run([servers.BINARY, "measure", "bookstore", *words], check=True,
                          capture_output=True, text=True).stdout
    found = dict()
    for level, faster, price in re.findall(
            r"^(\w+): ([\d.]+) times as fast as naive, ([\d.]+) of its price", said, re.M):
        found[level] = float(faster), float(price)
    for level in LEVELS:
        faster, price = found[level]
        least = fastest.get(level)
        if least is None:
            report.series(f"{name}, {level}: naive's time / its", [faster], "")
        else:
            report.promise(f"{name}, {level}: {faster:.2f} times as fast as naive",
                           least <= faster, least)
        if level == "atomic" and price_max is not None:
            report.promise(f"{name}, {level}: {price:.3f} of naive's price",
                           price <= price_max, price_max)
        else:
            report.series(f"{name}, {level}: its price / naive's", [price], "")


def bookstores(report):
    bookstore(report, "2007, as the paper", [], {"basic": 2.8, "monotonic": 2.8, "atomic": 4}, None)
    bookstore(report, "2007, parallel", ["--parallel"], {}, None)
    steady = ["--year", "2026", "--products", "1000", "--rate", "10", "--transactions", "640"]
    for queues in ["sqs", "bucket"]:
        bookstore(report, f"2026, {queues}", [*steady, "--queues", queues], {}, 0.5)


def key(number):
    return f"user{number:012}"


def write_csv(path, numbers):
    """Records of 100 bytes; values that do not compress to nothing."""
    chance = random.Random(34)
    filler = [f"{chance.getrandbits(336):0{VALUE_BYTES}x}"[:VALUE_BYTES] for _ in range(1_000)]
    with open(path, "w") as out:
        out.write("key,value\n")
        for number in numbers:
            out.write(f"{key(number)},{filler[number % 1_000]}\n")


def records_of(path):
    with open(path) as lines:
        next(lines)
        for line in lines:
            own, value = line.rstrip("\n").split(",")
            yield own.encode(), value.encode()


def fader(*words, folder, stdout=subprocess.DEVNULL):
    begin = time.monotonic()
    subprocess.run([servers.BINARY, "db", *map(str, words)], check=True, stdout=stdout,
                   stderr=subprocess.DEVNULL, env=servers.environment(folder))
    return time.monotonic() - begin


def fader_import(folder, path):
    at = folder / "fader"
    shutil.rmtree(at, ignore_errors=True)
    fader("create", at.as_uri(), "records", "--key", "key", folder=folder)
    return fader("import", at.as_uri(), "records", path, folder=folder)


def fader_scan(folder, records):
    out = folder / "scanned"
    with open(out, "wb") as file:
        taken = fader("scan", (folder / "fader").as_uri(), "records", folder=folder, stdout=file)
    with open(out, "rb") as file:
        found = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    out.unlink()
    return taken, found == records


def sqlite_open(folder):
    database = sqlite3.connect(folder / "sqlite", isolation_level=None)
    database.execute("pragma synchronous = full")
    return database


def sqlite_import(folder, path, seconds_max=math.inf):
    """Its seconds; those until it was stopped, after `seconds_max`."""
    for old in folder.glob("sqlite*"):
        old.unlink()
    begin = time.monotonic()
    with contextlib.closing(sqlite_open(folder)) as database:
        create = "create table records(key blob primary key, value blob) without rowid"
        database.execute(create)
        database.execute("begin")
        records = records_of(path)
        while some := list(itertools.islice(records, BATCH)):
            database.executemany("insert into records values (?, ?)", some)
            if seconds_max < time.monotonic() - begin:
                return time.monotonic() - begin
        database.execute("commit")
    return time.monotonic() - begin


def sqlite_scan(folder, records):
    out = folder / "scanned"
    begin = time.monotonic()
    with contextlib.closing(sqlite_open(folder)) as database, open(out, "wb") as file:
        rows = database.execute("select key, value from records order by key")
        for some in iter(lambda: rows.fetchmany(BATCH), []):
            file.write(b"".join(b"%s\t%s\n" % row for row in some))
        found = database.execute("select count(*) from records").fetchone()[0]
    taken = time.monotonic() - begin
    out.unlink()
    return taken, found == records


def sqlite_reads(folder, records):
    """Reads a second of a prepared SELECT; none without a compiler and SQLite's header."""
    program = folder / "sqlite_reads"
    cc = ["cc", "-O2", "-o", program, HERE / "sqlite_reads.c", "-lsqlite3"]
    if subprocess.run(cc, capture_output=True).returncode != 0:
        return None
    words = [program, folder / "sqlite", records, READS]
    return float(subprocess.run(list(map(str, words)), check=True, capture_output=True).stdout)


def pool_reads(folder, records):
    """Reads a second of a database whose pages are in its client's pool, by level, and of a
    BTreeMap."""
    at = folder / "pool"
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir()
    words = [mapreduce.BENCH, "reads", at.as_uri(), "--records", records, "--reads", READS]
    said = subprocess.run(list(map(str, words)), check=True, capture_output=True).stdout
    shutil.rmtree(at)
    return json.loads(said)


def compare_shuffled(options, report, folder, numbers):
    """Ratios of import of keys in random order."""
    path = folder / "records.csv"
    write_csv(path, numbers)
    ours, theirs = [], []
    for _ in range(options.runs):
        ours.append(fader_import(folder, path))
        theirs.append(sqlite_import(folder, path, STOP_TIMES * ours[-1]))
    name = "import, keys in random order"
    report.series(f"{name}: fader", ours, "s")
    report.series(f"{name}: SQLite, until it was stopped", theirs, "s")
    report.ratio(f"{name}: SQLite's time / ours", theirs, ours, 1)
    path.unlink()


def compare_ordered(options, report, folder, numbers):
    """Ratios of import of keys in order, and of a full scan."""
    path = folder / "records.csv"
    write_csv(path, numbers)
    ours, theirs, scans, their_scans = [], [], [], []
    for _ in range(options.runs):
        ours.append(fader_import(folder, path))
        theirs.append(sqlite_import(folder, path))
        taken, is_whole = fader_scan(folder, len(numbers))
        their, is_theirs_whole = sqlite_scan(folder, len(numbers))
        report.promise("import, keys in order: all records are there",
                       is_whole and is_theirs_whole, "always")
        scans.append(taken)
        their_scans.append(their)
    report.series("import, keys in order: fader", ours, "s")
    report.series("import, keys in order: SQLite", theirs, "s")
    report.ratio("import, keys in order: SQLite's time / ours", theirs, ours, 0.5)
    report.series("scan: fader", scans, "s")
    report.series("scan: SQLite", their_scans, "s")
    report.ratio("scan: SQLite's time / ours", their_scans, scans, 1)
    path.unlink()


def compare_reads(options, report, folder):
    path = folder / "records.csv"
    count = RECORDS_SMALL if options.small else READ_RECORDS
    write_csv(path, range(count))
    sqlite_import(folder, path)
    found, theirs = [], []
    for _ in range(options.runs):
        found.append(pool_reads(folder, count))
        theirs.append(sqlite_reads(folder, count))
    rates = {name: [round[name] for round in found] for name in found[0]}
    for name in ["basic", "monotonic"]:
        report.series(f"point reads, {name}", rates[name], "/s")
        report.ratio(f"point reads, {name}: ours / BTreeMap's", rates[name], rates["btree_map"],
                     0.7)
    if None not in theirs:
        report.series("point reads, SQLite's prepared SELECT", theirs, "/s")
        report.ratio("point reads, basic: ours / SQLite's", rates["basic"], theirs, 3)


def run(options, report):
    bookstores(report)
    count = RECORDS_SMALL if options.small else RECORDS
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = pathlib.Path(scratch)
        hot_collection.compare(options, report, folder)
        compare_reads(options, report, folder)
        compare_ordered(options, report, folder, range(count))
        shuffled = list(range(count))
        random.Random(1).shuffle(shuffled)
        compare_shuffled(options, report, folder, shuffled)
