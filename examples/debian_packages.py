"""Loads Debian's package index into SimpleDB and asks it questions.

    fader serve                      # its first start prints four `export` lines: use them
    python3 -m pip install boto3
    python3 examples/debian_packages.py --limit 5000

The packages come from `apt-cache dumpavail` (run `apt-get update` if it is empty): about 64,000
items. A package's dependencies and tags become attributes with many values. What is longer than
SimpleDB's limits is cut: 1,024 bytes a value, 256 pairs an item, 25 items and 1 MB a batch.
"""

import argparse
import concurrent.futures
import itertools
import re
import subprocess
import sys
import time

import boto3
from botocore.config import Config

VALUE_BYTES_MAX = 1024
PAIRS_MAX = 256
BATCH_ITEMS_MAX = 25
BATCH_BYTES_MAX = 300_000

# Fields that are kept as they are.
PLAIN = ["Version", "Priority", "Architecture", "Maintainer", "Homepage", "Source"]


def stanzas(lines):
    """The packages of a `dumpavail`, each as `{field: text}`."""
    fields, name = {}, None
    for line in lines:
        line = line.rstrip("\n")
        if not line:
            if fields:
                yield fields
            fields, name = {}, None
        elif line[0] in " \t":
            fields[name] += "\n" + line.strip()
        else:
            name, _, text = line.partition(":")
            fields[name] = text.strip()
    if fields:
        yield fields


def cut(text):
    """At most so many bytes of UTF-8, and no half character."""
    return text.encode()[:VALUE_BYTES_MAX].decode(errors="ignore")


def attributes(fields):
    """A package's fields as SimpleDB attributes."""
    pairs = [(name, fields[name]) for name in PLAIN if fields.get(name)]
    pairs.append(("Summary", fields.get("Description", "").split("\n")[0]))
    # SimpleDB compares text: numbers of one width compare as numbers do.
    pairs.append(("InstalledKiB", f"{int(fields.get('Installed-Size', 0)):010}"))
    pairs += [("Section", part) for part in fields.get("Section", "").split("/")]
    pairs += [("Tag", tag.strip()) for tag in fields.get("Tag", "").split(",")]
    for name in ["Pre-Depends", "Depends"]:
        pairs += [("Depends", package) for package in packages(fields.get(name, ""))]
    pairs = [(name, cut(value)) for name, value in pairs if value]
    unique = list(dict.fromkeys(pairs))[:PAIRS_MAX]
    return [{"Name": name, "Value": value, "Replace": True} for name, value in unique]


def packages(dependencies):
    """The package names of a Depends field: `a (>= 1), b | c:any` gives a, b, c."""
    for choice in re.split(r"[,|]", dependencies):
        name = re.match(r"\s*([a-z0-9][a-z0-9+.-]+)", choice)
        if name:
            yield name.group(1)


def batches(items):
    """Lists of items that fit one BatchPutAttributes."""
    batch, size = [], 0
    for item in items:
        bytes_ = sum(len(a["Name"]) + len(a["Value"].encode()) for a in item["Attributes"])
        if len(batch) == BATCH_ITEMS_MAX or size + bytes_ > BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += bytes_
    if batch:
        yield batch


def items(lines, limit):
    """Each package once, in its first version, as an item."""
    seen = set()
    for fields in stanzas(lines):
        name = fields.get("Package")
        if name and name not in seen:
            seen.add(name)
            yield {"Name": name, "Attributes": attributes(fields)}
            if len(seen) == limit:
                return


def load(sdb, domain, lines, limit, threads):
    """Puts the packages, some batches at a time; their count."""
    count = 0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        groups = batches(items(lines, limit))
        while some := list(itertools.islice(groups, threads * 4)):
            put = lambda batch: sdb.batch_put_attributes(DomainName=domain, Items=batch)
            for _ in pool.map(put, some):
                pass
            count += sum(len(batch) for batch in some)
            if sys.stderr.isatty():
                print(f"\r{count} packages ", end="", file=sys.stderr, flush=True)
    return count


def select(sdb, expression, most=None):
    """The items of all pages, or the first so many."""
    pages = sdb.get_paginator("select").paginate(
        SelectExpression=expression, ConsistentRead=True
    )
    found = (item for page in pages for item in page.get("Items", []))
    return list(itertools.islice(found, most))


def count(sdb, rest):
    """What `select count(*)` says, over all its pages."""
    counts = select(sdb, f"select count(*) {rest}")
    return sum(int(item["Attributes"][0]["Value"]) for item in counts)


def value(item, name):
    return next((a["Value"] for a in item.get("Attributes", []) if a["Name"] == name), "")


def ask(sdb, domain):
    """Some questions, with their answers."""
    table = f"from `{domain}`"
    print(f"packages:                        {count(sdb, table)}")
    for section in ["games", "science", "python"]:
        found = count(sdb, f"{table} where Section = '{section}'")
        print(f"in section {section + ':':<21} {found}")
    depending = count(sdb, f"{table} where Depends = 'libc6'")
    print(f"that need libc6:                 {depending}")
    both = count(sdb, f"{table} where Depends = 'libc6' intersection Depends = 'zlib1g'")
    print(f"that need libc6 and zlib1g:      {both}")
    needless = count(sdb, f"{table} where Depends is null")
    print(f"that need nothing:               {needless}")
    print("the largest:")
    expression = (
        f"select InstalledKiB, Summary {table} where InstalledKiB > '0000010000'"
        " order by InstalledKiB desc limit 5"
    )
    for item in select(sdb, expression, most=5):
        size = int(value(item, "InstalledKiB")) // 1024
        print(f"  {item['Name']:<30} {size:>6} MiB  {value(item, 'Summary')}")
    print("games whose name begins with an a:")
    expression = (
        f"select Summary {table} where itemName() like 'a%' and Section = 'games'"
        " order by itemName() limit 5"
    )
    for item in select(sdb, expression, most=5):
        print(f"  {item['Name']:<30} {value(item, 'Summary')}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", default="debian")
    parser.add_argument("--limit", type=int, help="load only so many packages")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--file", help="a file to read instead of apt-cache's output")
    options = parser.parse_args()
    sdb = boto3.client("sdb", config=Config(max_pool_connections=options.threads))
    sdb.create_domain(DomainName=options.domain)
    start = time.monotonic()
    if options.file:
        with open(options.file, encoding="utf-8") as lines:
            loaded = load(sdb, options.domain, lines, options.limit, options.threads)
    else:
        command = ["apt-cache", "dumpavail"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as apt:
            loaded = load(sdb, options.domain, apt.stdout, options.limit, options.threads)
            apt.kill()
    if not loaded:
        sys.exit("no packages: `apt-get update` fetches the lists")
    print(f"loaded {loaded} packages in {time.monotonic() - start:.1f} s")
    ask(sdb, options.domain)


if __name__ == "__main__":
    main()
