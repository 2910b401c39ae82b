"""`fader mapreduce`: jobs in folders, by one process and by several that are killed."""

import base64
import collections
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from server import BINARY, environment, fader

SPACE = b" \t\n\v\f\r"


def words_of(data):
    for byte in SPACE[1:]:
        data = data.replace(bytes([byte]), b" ")
    return [word for word in data.split(b" ") if word]


def write_corpus(folder, files, words, seed=1):
    """Files of words with a long tail; returns the lines of their word count."""
    draw = random.Random(seed)
    counts = collections.Counter()
    folder.mkdir()
    for number in range(files):
        chosen = [b"w%d" % int(draw.paretovariate(0.5)) for _ in range(words)]
        counts.update(chosen)
        breaks = b" \n\t\v\f\r"
        text = b"".join(word + bytes([draw.choice(breaks)]) for word in chosen)
        (folder / f"f{number:04}.txt").write_bytes(text)
    return sorted(b"%s\t%d" % (word, count) for word, count in counts.items())


def parts(out):
    return {path.name: path.read_bytes() for path in sorted(out.glob("part-*"))}


def lines(out):
    return sorted(b"".join(parts(out).values()).splitlines())


@pytest.fixture
def mapreduce(tmp_path):
    def run(*arguments, **more):
        return fader("mapreduce", *map(str, arguments), home=tmp_path, **more)

    return run


def start(tmp_path, *arguments, **more):
    command = [BINARY, "mapreduce", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment(tmp_path, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_words_are_counted(mapreduce, tmp_path):
    expected = write_corpus(tmp_path / "in", files=20, words=500)
    out = tmp_path / "out"
    told = mapreduce("run", "word-count", "--input", f"file://{tmp_path}/in/**", "--output", out)
    assert "10000" in told.stderr or "became" in told.stderr
    assert lines(out) == expected
    success = json.loads((out / "_SUCCESS").read_text())
    assert [file["name"] for file in success["files"]] == sorted(parts(out))
    told = mapreduce("status", out).stdout
    assert "complete" in told and "requests until its end: $" in told
    found = json.loads(mapreduce("status", out, "--json").stdout)
    assert found["phases"][2]["done"] == 8
    assert 0 < found["phases"][1]["bytes_per_s"] and found["phases"][1]["stragglers"] == []
    assert "word-count" in mapreduce("list", tmp_path).stdout
    assert "m-00000" in mapreduce("explain", out).stdout
    job = found["register"]["job"]
    left = [path for path in (out / "_fader" / job).rglob("*") if path.is_file()]
    assert left == []
    again = mapreduce(
        "run", "word-count", "--input", tmp_path / "in", "--output", out, check=False
    )
    assert again.returncode == 1 and "_SUCCESS" in again.stderr


def test_a_job_that_cannot_be_says_why(mapreduce, tmp_path):
    write_corpus(tmp_path / "in", files=1, words=5)
    inside = mapreduce(
        "run", "sort", "--input", tmp_path / "in", "--output", tmp_path / "in/out", check=False
    )
    assert inside.returncode == 1 and "inside the input" in inside.stderr
    missing = mapreduce(
        "run", "sort", "--input", f"{tmp_path}/in/*.csv", "--output", tmp_path / "o", check=False
    )
    assert missing.returncode == 1 and "no input matches" in missing.stderr
    assert "no input matches" in mapreduce("logs", tmp_path / "o").stdout
    unknown = mapreduce(
        "run", "wordcount", "--input", tmp_path / "in", "--output", tmp_path / "p", check=False
    )
    assert unknown.returncode == 1 and "word-count" in unknown.stderr
    (tmp_path / "in" / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00cut off")
    damaged = mapreduce(
        "run", "word-count", "--input", tmp_path / "in", "--output", tmp_path / "q", check=False
    )
    assert damaged.returncode == 1 and "cut.gz" in damaged.stderr
    assert parts(tmp_path / "q") == {}


def test_a_job_without_workers_is_cancelled(mapreduce, tmp_path):
    write_corpus(tmp_path / "in", files=2, words=50)
    out = tmp_path / "out"
    job = mapreduce("submit", "sort", "--input", tmp_path / "in", "--output", out).stdout.strip()
    assert "running" in mapreduce("status", out).stdout
    other = mapreduce("worker", out, "--job", "0" * 32, check=False)
    assert other.returncode == 1 and job in other.stderr
    assert job in mapreduce("cancel", out).stdout
    ended = mapreduce("worker", out, check=False)
    assert ended.returncode == 1 and "cancelled" in ended.stderr
    mapreduce("run", "sort", "--input", tmp_path / "in", "--output", out)
    in_order = b"".join(parts(out).values()).split(b"\n")[:-1]
    assert in_order == sorted(in_order) and in_order


def test_killed_workers_change_nothing(mapreduce, tmp_path):
    expected = write_corpus(tmp_path / "in", files=120, words=2_000)
    job = ["word-count", "--input", tmp_path / "in", "--split", "32KiB", "--reduces", "5"]
    mapreduce("run", *job, "--output", tmp_path / "calm")
    assert lines(tmp_path / "calm") == expected
    out = tmp_path / "out"
    mapreduce("submit", *job, "--lease", "1s", "--output", out)
    draw = random.Random(7)
    workers = [start(tmp_path, "worker", out, "--slots", 2) for _ in range(3)]
    killed = 0
    while not (out / "_SUCCESS").exists():
        time.sleep(0.2)
        if killed < 6:
            number = draw.randrange(len(workers))
            if workers[number].poll() is None:
                workers[number].send_signal(signal.SIGKILL)
                killed += 1
            workers[number].wait()
            workers[number] = start(tmp_path, "worker", out, "--slots", 2)
        for worker in workers:
            assert worker.poll() in (None, 0, -signal.SIGKILL), worker.stderr.read()
    for worker in workers:
        _, told = worker.communicate(timeout=120)
        assert worker.returncode == 0, told
    assert parts(out) == parts(tmp_path / "calm")


def test_a_killed_run_is_resumed(mapreduce, tmp_path):
    expected = write_corpus(tmp_path / "in", files=60, words=2_000)
    out = tmp_path / "out"
    command = ["run", "word-count", "--input", tmp_path / "in", "--output", out]
    command += ["--split", "16KiB", "--lease", "1s"]
    first = start(tmp_path, *command)
    register = out / "_fader/job"
    while not register.exists() and first.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    if not (out / "_SUCCESS").exists():
        mapreduce(*command)
    assert lines(out) == expected


def test_an_interrupt_leaves_a_job_that_can_be_resumed(mapreduce, tmp_path):
    expected = write_corpus(tmp_path / "in", files=60, words=4_000)
    out = tmp_path / "out"
    command = ["run", "word-count", "--input", tmp_path / "in", "--output", out]
    command += ["--split", "16KiB", "--lease", "1s", "--slots", "1"]
    first = start(tmp_path, *command)
    while not (out / "_fader/job").exists() and first.poll() is None:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGINT)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 130, told
    assert b"To resume: " in told and b"mapreduce run word-count" in told
    mapreduce(*command)
    assert lines(out) == expected


STEPS = """
[[step]]
program = "word-count"
input = "{inputs}"
reduces = 3

[[step]]
program = "streaming"
arguments = ["-mapper", "grep -v ^w1[0-9]*", "-reducer", "cat", "-numReduceTasks", "2"]

[[step]]
program = "top"
arguments = ["5"]
reduces = 1
"""


def test_each_step_reads_the_output_of_the_one_before(mapreduce, tmp_path):
    counts = write_corpus(tmp_path / "in", files=5, words=400)
    (tmp_path / "steps.toml").write_text(STEPS.format(inputs=tmp_path / "in"))
    run = ["run", "--job", tmp_path / "steps.toml", "--output", tmp_path / "out"]
    told = mapreduce(*run)
    kept = [line for line in counts if not line.startswith(b"w1")]
    most = sorted((int(line.split(b"\t")[1]) for line in kept), reverse=True)[:5]
    assert [int(line.split(b"\t")[1]) for line in lines_in_order(tmp_path / "out")] == most
    assert lines(tmp_path / "out-step-1") == counts
    assert lines(tmp_path / "out-step-2") == sorted(kept)
    assert told.stderr.index("step 1, word-count") < told.stderr.index("step 3, top")
    # What is complete is not done again, unless the step is another.
    again = mapreduce(*run, check=False)
    assert again.returncode == 1 and "complete before" in again.stderr
    assert "_SUCCESS" in again.stderr
    changed = STEPS.format(inputs=tmp_path / "in").replace("reduces = 3", "reduces = 4")
    (tmp_path / "steps.toml").write_text(changed)
    other = mapreduce(*run, check=False)
    assert other.returncode == 1 and "out-step-1" in other.stderr
    both = mapreduce(*run, "--reduces", 3, check=False)
    assert both.returncode == 2 and "--job" in both.stderr


def lines_in_order(out):
    return b"".join(parts(out).values()).splitlines()


# A small process that runs another one, and says how many KiB of memory it had at most. A large
# parent's own memory would count until the other program begins.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""

MB = 1_000_000


def random_lines(bytes_of_line):
    """60 MB of lines without an order, none twice."""
    for _ in range(60):
        text = base64.b64encode(os.urandom(MB * 3 // 4))
        lines = (text[at : at + bytes_of_line] for at in range(0, len(text), bytes_of_line))
        yield b"\n".join(lines) + b"\n"


def equal_lines():
    """60 MB of one line: all are in one partition."""
    return (b"all of them in one partition, and none in another\n" * (MB // 50) for _ in range(60))


def skewed_words(megabytes):
    """Words, of which half are one. Of the others none is there twice."""
    for _ in range(megabytes):
        text = os.urandom(MB * 3 // 8).hex().encode()
        words = [text[at : at + 12] for at in range(0, len(text), 12)]
        lines = (b" the ".join(words[at : at + 10]) for at in range(0, len(words), 10))
        yield b"\n".join(lines) + b"\n"


def one_line_compressed():
    """60 MB of one line, as 100 KB."""
    yield gzip.compress(b"".join(equal_lines()))


# Of `--memory`, at most.
MEMORY_SHARE_MAX = 1.15


@pytest.mark.parametrize(
    "program, name, blocks, megabytes",
    [
        ("sort", "in", lambda: random_lines(100), 64),
        ("sort", "in", lambda: random_lines(3), 64),
        ("sort", "in", equal_lines, 64),
        ("sort", "in.gz", one_line_compressed, 64),
        ("word-count", "in", lambda: skewed_words(40), 64),
        ("inverted-index", "in", lambda: skewed_words(40), 64),
        ("word-count", "in", lambda: skewed_words(240), 512),
    ],
    ids=["sort", "short-lines", "one-partition", "compressed", "word-count", "inverted-index",
         "word-count-512"],
)
def test_memory_is_bounded(tmp_path, program, name, blocks, megabytes):
    """The verdict is the resident memory that the kernel counted, files of the program included."""
    corpus, out, memory = tmp_path / name, tmp_path / "out", megabytes << 20
    with corpus.open("wb") as file:
        file.writelines(blocks())
    command = [BINARY, "mapreduce", "run", program, "--input", corpus, "--output", out]
    done = subprocess.run(
        [sys.executable, "-S", "-c", PEAK, *command, "--memory", f"{memory}", "--slots", "2"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) << 10 <= MEMORY_SHARE_MAX * memory
    assert (out / "_SUCCESS").exists()


def test_the_reader_of_messages_may_go_away(tmp_path):
    """As `2>&1 | head` does: the job is completed, and the exit code says so."""
    expected = write_corpus(tmp_path / "in", files=2, words=50)
    reader, writer = os.pipe()
    os.close(reader)
    job = ["word-count", "--input", tmp_path / "in", "--output", tmp_path / "out"]
    command = [BINARY, "mapreduce", "run", *map(str, job)]
    run = subprocess.run(command, env=environment(tmp_path), stdout=writer, stderr=writer)
    os.close(writer)
    assert run.returncode == 0
    assert lines(tmp_path / "out") == expected
