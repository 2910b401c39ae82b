"""`python -m jobs --rounds N --seed S`: in each round a job counts words in a folder, by the
process that began it and two workers. One of them is killed (kill -9) at a random moment, or all
are, and the job is resumed. Then the output is that of a calm run, byte by byte. No more tasks were
begun in vain than killed processes had slots."""

import collections
import json
import random
import subprocess
import sys
import time

import kills
from kills import Violation
from server import BINARY, environment

FILES, WORDS = 96, 3_000
SLOTS = 2
WORKERS = 2
JOB = ["word-count", "--split", "48KiB", "--reduces", "5", "--lease", "3s", "--no-backups"]
SECONDS_MAX = 1.5
PATIENCE_SECONDS = 180


class Round:
    """A job and its processes."""

    def __init__(self, folder, name):
        self.folder, self.out = folder, folder / name
        self.processes = []
        # Attempts that went silent, by phase, as they were seen last.
        self.lost = collections.Counter()

    def start(self, *words):
        process = subprocess.Popen(
            [BINARY, "mapreduce", *map(str, words), "--slots", str(SLOTS)],
            env=environment(self.folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )
        self.processes.append(process)
        return process

    def run(self):
        """Begins the job, or goes on with it."""
        return self.start("run", *JOB, "--input", self.folder / "in", "--output", self.out)

    def begin(self):
        first = self.run()
        while not (self.out / "_fader/job").exists() and first.poll() is None:
            time.sleep(0.005)
        for _ in range(WORKERS):
            self.start("worker", self.out)

    def kill(self, killed):
        for process in killed:
            process.kill()
        for process in killed:
            process.communicate()
            self.processes.remove(process)

    def look(self):
        """Takes note of attempts that went silent: their rows go when the job has ended."""
        told = subprocess.run(
            [BINARY, "mapreduce", "status", self.out, "--json"], env=environment(self.folder),
            capture_output=True, text=True,
        )
        if told.returncode == 0:
            for phase in json.loads(told.stdout)["phases"]:
                self.lost[phase["phase"]] = max(self.lost[phase["phase"]], phase["lost"])

    def finish(self):
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self.out / "_SUCCESS").exists():
            self.look()
            if end < time.monotonic():
                self.kill(list(self.processes))
                raise Violation("the job does not end")
            time.sleep(0.05)
        for process in self.processes:
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
            if process.returncode != 0:
                raise Violation(f"code {process.returncode}: {errors}")

    def parts(self):
        return {path.name: path.read_bytes() for path in sorted(self.out.glob("part-*"))}


def write_words(folder):
    chance = random.Random(36)
    folder.mkdir()
    for number in range(FILES):
        words = [b"w%d" % int(chance.paretovariate(0.5)) for _ in range(WORDS)]
        (folder / f"f{number:04}").write_bytes(b" ".join(words))


def crash(rounds, seed, folder):
    chance = random.Random(seed)
    write_words(folder / "in")
    calm = Round(folder, "calm")
    calm.begin()
    calm.finish()
    expected = calm.parts()
    if not expected or calm.lost.total():
        raise Violation(f"without a kill {len(expected)} parts, {dict(calm.lost)} in vain")
    counts = collections.Counter()
    for number in range(1, rounds + 1):
        job = Round(folder, f"out-{number}")
        job.begin()
        time.sleep(chance.uniform(0, SECONDS_MAX))
        first, *workers = job.processes
        kind = chance.choice(["worker", "beginner", "all"])
        killed = {"worker": [chance.choice(workers)], "beginner": [first],
                  "all": list(job.processes)}[kind]
        job.kill(killed)
        if kind == "all" and not (job.out / "_SUCCESS").exists():
            job.run()
            counts["resumed"] += 1
        job.finish()
        if job.parts() != expected:
            raise Violation(f"round {number}, {kind} killed: {job.out} has other bytes")
        if len(killed) * SLOTS < job.lost.total():
            raise Violation(f"round {number}: {dict(job.lost)} in vain, {len(killed)} killed")
        counts[f"{kind} killed"] += 1
        counts["tasks begun in vain"] += job.lost.total()
        if number % 10 == 0 or number == rounds:
            told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            print(f"{number} rounds: {told}; equal outputs", flush=True)


if __name__ == "__main__":
    sys.exit(kills.main("jobs", __doc__, 30, crash))
