"""`python -m databases --rounds N --seed S`: several `fader db` processes write one database, in a
folder or, with the address of an S3 server in FADER_S3, in its bucket `crash`. In each round all
are killed (kill -9) at a random moment. Then every acknowledged write is there, each Atomic
transaction and each load is there whole or not at all, and `fader db verify` finds nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import kills
from kills import Violation
from server import BINARY, environment

CLIENTS = 6
# Keys of a client: few, so that they are overwritten, deleted and inserted again.
KEYS = 12
# Records of an Atomic transaction, and of a load.
TRANSACTION, LOAD = 30, 400
SECONDS_MAX = 2.0
PATIENCE_SECONDS = 120
# For how long a transaction is left to the client that received it, and a little more.
ADOPTION_SECONDS = 32
LEVELS = ["basic", "monotonic", "atomic"]


class Database:
    def __init__(self, folder):
        self.folder = folder
        self.log = folder / "stderr.log"
        address = os.environ.get("FADER_S3")
        self.more = {}
        if address:
            self.url = f"s3://crash/databases?endpoint=http://{address}"
            self.more = {f"AWS_{name}": "crash" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
        else:
            self.url = f"file://{folder}/shop"

    def start(self, command, *arguments):
        return subprocess.Popen(
            [BINARY, "db", command, self.url, *arguments],
            env=environment(self.folder, **self.more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command, *arguments):
        process = self.start(command, *arguments)
        try:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Violation(f"fader db {command} does not end") from None
        if process.returncode != 0:
            raise Violation(f"fader db {command} {arguments}: {output}{errors}")
        return output

    def records(self, collection, *how):
        """The values of its records by key; with `--fresh` those too that wait in queues."""
        lines = self.run("scan", collection, *how).splitlines()
        records = (json.loads(line.split("\t")[1]) for line in lines)
        return {record["id"]: record["value"] for record in records}


class Client(threading.Thread):
    """Runs one command after the other until one was killed."""

    def __init__(self, database, number, seed, known):
        super().__init__(daemon=True)
        self.database, self.number = database, number
        self.chance = random.Random(seed)
        # What each of its keys may be: a value, or None for no record.
        self.known = known
        # Transactions and loads of this round: their keys, their value, whether acknowledged.
        self.whole = []
        self.counts = {"acknowledged": 0, "killed after": 0, "killed before": 0}
        self.lock, self.process, self.is_over = threading.Lock(), None, False
        self.violation = None

    def kill(self):
        with self.lock:
            self.is_over = True
            if self.process and self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)

    def run(self):
        try:
            while not self.is_over:
                self.step()
        except Violation as violation:
            self.violation = violation

    def call(self, command, *arguments, acknowledgement="prices of"):
        """Whether it was acknowledged: by its exit, or by what it said before it was killed."""
        with self.lock:
            if self.is_over:
                return None
            self.process = self.database.start(command, *arguments)
        try:
            _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Violation(f"fader db {command} does not end") from None
        said = acknowledgement in errors
        code = self.process.returncode
        if code == 0:
            self.counts["acknowledged"] += 1
        elif code == -signal.SIGKILL:
            self.counts["killed after" if said else "killed before"] += 1
        else:
            raise Violation(f"fader db {command} {arguments}: {code}: {errors}")
        return code == 0 or said

    def step(self):
        kind = self.chance.choice(["put", "put", "put", "delete", "transaction", "checkpoint"])
        if kind == "checkpoint":
            self.call("checkpoint")
            return
        mark = f"{self.chance.getrandbits(64):016x}"
        if kind == "transaction":
            keys = [f"t{mark}-{number:03}" for number in range(TRANSACTION)]
            told = self.load("records", keys, mark, "--level", "atomic", "--transactions")
            self.whole.append(("records", keys, mark, told))
            return
        key = f"k{self.number}-{self.chance.randrange(KEYS):02}"
        how = ["--level", self.chance.choice(LEVELS), "--cost"]
        if kind == "put":
            value = json.dumps({"id": key, "value": mark})
            self.learn(key, mark, self.call("put", "records", key, value, *how))
        else:
            self.learn(key, None, self.call("delete", "records", key, *how))

    def learn(self, key, value, told):
        if told is None:
            return
        self.known[key] = {value} if told else self.known.get(key, {None}) | {value}

    def load(self, collection, keys, mark, *how):
        path = self.database.folder / f"{mark}.json"
        path.write_text("".join(json.dumps({"id": key, "value": mark}) + "\n" for key in keys))
        said = f"{len(keys)} lines are committed"
        told = self.call("import", collection, str(path), *how, acknowledgement=said)
        path.unlink()
        return told


class Loader(Client):
    """Makes one collection a round, and loads it."""

    def step(self):
        if self.whole:
            time.sleep(0.01)
            return
        mark = f"{self.chance.getrandbits(64):016x}"
        collection = f"load-{mark}"
        if self.call("create", collection, "--key", "id") is None:
            return
        keys = [f"{number:06}" for number in range(LOAD)]
        self.whole.append((collection, keys, mark, self.load(collection, keys, mark)))


def check(database, known, clients, *how):
    """Compares the database with what the dead were told; what was open is known from here on."""
    database.run("checkpoint")
    verified = database.run("verify")
    found = database.records("records", *how)
    for key, values in known.items():
        if found.get(key) not in values:
            raise Violation(f"{key} is {found.get(key)!r}, one of {values} was told")
        known[key] = {found.get(key)}
    strange = {key for key in found if key.startswith("k")} - set(known)
    if strange:
        raise Violation(f"records of unknown writes: {sorted(strange)}")
    for collection, keys, mark, told in (whole for client in clients for whole in client.whole):
        if collection == "records":
            there = [key for key in keys if found.get(key) == mark]
        elif f"{collection}:" in verified:
            there = list(database.records(collection))
            database.run("drop", collection, "--yes")
        else:
            there = []
        if len(there) not in ({len(keys)} if told else {0, len(keys)}):
            count = f"{len(there)} of {len(keys)}"
            raise Violation(f"{collection} {mark}: {count} records, told {told}")


def crash(rounds, seed, folder):
    database, chance = Database(folder), random.Random(seed)
    print(f"{database.url}, seed {seed}", flush=True)
    database.run("create", "records", "--key", "id")
    known, sums, whole = {}, {}, 0
    for number in range(1, rounds + 1):
        clients = [
            (Client if name else Loader)(database, name, chance.getrandbits(64), {})
            for name in range(CLIENTS)
        ]
        for client in clients:
            own = {key: known[key] for key in known if key.startswith(f"k{client.number}-")}
            client.known.update(own)
        moment = chance.uniform(0.05, SECONDS_MAX)
        for client in clients:
            client.start()
        time.sleep(moment)
        for client in chance.sample(clients, CLIENTS):
            client.kill()
        for client in clients:
            client.join(PATIENCE_SECONDS)
            if client.violation:
                raise client.violation
            known.update(client.known)
            for name, count in client.counts.items():
                sums[name] = sums.get(name, 0) + count
        whole += sum(len(client.whole) for client in clients)
        # What a dead client had received is hidden from others for a while, and acknowledged.
        check(database, known, clients, "--fresh")
        if number % 10 == 0 or number == rounds:
            told = ", ".join(f"{count} {name}" for name, count in sums.items())
            print(f"{number} rounds: commands: {told}; {whole} whole", flush=True)
    time.sleep(ADOPTION_SECONDS)
    check(database, known, [])
    print(f"all {len(known)} keys are as they were told when nothing is pending any more")


if __name__ == "__main__":
    sys.exit(kills.main("databases", __doc__, 100, crash))
