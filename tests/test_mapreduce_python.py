"""The Python library of jobs (bindings/python/mapreduce): alone, and with real workers."""

import collections
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from server import BINARY, ROOT, environment, fader
from test_mapreduce import lines, parts, start, write_corpus

LIBRARY = ROOT / "bindings/python/mapreduce"
sys.path.insert(0, str(LIBRARY))

from fader_mapreduce import Job, Step, values  # noqa: E402

WORDS = """
    from fader_mapreduce import Job

    class Words(Job):
        reduces = 3
        def mapper(self, source, line):
            self.count("lines")
            for word in line.split():
                yield word, 1
        def combiner(self, word, counts):
            yield word, sum(counts)
        def reducer(self, word, counts):
            yield word, sum(counts)

    if __name__ == "__main__":
        Words.run()
"""


@pytest.fixture
def job(tmp_path):
    """Runs the job of a text, in a process of its own."""

    def run(text, *words, check=True, begin=False):
        path = tmp_path / "job.py"
        path.write_text(textwrap.dedent(text))
        command = [sys.executable, path, "--fader", BINARY, "--python", sys.executable, *words]
        more = environment(tmp_path, PYTHONPATH=str(LIBRARY))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": more}
        process = subprocess.Popen(list(map(str, command)), **pipes)
        if begin:
            return process
        out, told = process.communicate(timeout=600)
        assert not check or process.returncode == 0, told
        return subprocess.CompletedProcess(command, process.returncode, out, told)

    return run


KEYS = [
    "", "a", "a!", "a b", "é", "\udcff", 0, 1, -1, 255, 2**63 - 1, -(2**63), 2**70, 1.5, None,
    b"\xff\x00", True, ("a", 1), [1, [2]], {"b": 1, "a": None},
]  # fmt: skip


@pytest.mark.parametrize("value", KEYS, ids=repr)
def test_values_come_back_as_they_were(value):
    back = values.decode(values.encode(value))
    assert back == value and type(back) is type(value)


def test_text_and_numbers_are_in_their_order():
    words = ["", "a", "a!", "a b", "ab", "b", "é", "漢"]
    assert sorted(words, key=values.encode) == sorted(words, key=lambda word: word.encode())
    numbers = [-(2**63), -300, -1, 0, 1, 2, 10, 255, 256, 2**63 - 1]
    assert sorted(reversed(numbers), key=values.encode) == numbers


def test_lines_of_an_output_are_no_two():
    assert values.text_line("a", 1) == b"a\t1"
    assert values.text_line(None, {"b": [1]}) == b'{"b":[1]}'
    for key, value in [("a\tb", 1), ("a", "1\n2"), (b"\n", 1)]:
        with pytest.raises(ValueError):
            values.text_line(key, value)
    with pytest.raises(TypeError, match="no JSON"):
        values.json_line("a", b"1")
    assert values.read_json_line(values.json_line(("a", [1]), None)) == (("a", (1,)), None)


class Longest(Job):
    """The most frequent words of each length."""

    def steps(self):
        return [
            Step(mapper=self.words, combiner=self.add, reducer=self.total),
            Step(mapper=self.by_length, reducer=self.most, reducer_final=self.ends),
        ]

    def words(self, _, line):
        return ((word, 1) for word in line.split())

    def add(self, word, counts):
        yield word, sum(counts)

    def total(self, word, counts):
        yield (word, len(word)), sum(counts)

    def by_length(self, key, count):
        word, length = key
        yield length, (count, word)

    def most(self, length, counted):
        yield length, max(map(tuple, counted))[1]

    def ends(self):
        yield "end", None


def test_a_job_can_be_tried_without_workers():
    found = Longest.run_inline({"a": "to be or not to be", "b": b"that is"})
    assert found == [b"2\tto", b"3\tnot", b"4\tthat", b"end\tnull"]


def test_words_are_counted_as_the_built_in_program_does(job, tmp_path):
    expected = write_corpus(tmp_path / "in", files=12, words=800)
    out = tmp_path / "out"
    job(WORDS, "--input", f"{tmp_path}/in/**", "--output", out, "--memory", "256MiB")
    assert lines(out) == expected
    assert len(parts(out)) == 3
    for text in parts(out).values():
        keys = [line.split(b"\t")[0] for line in text.splitlines()]
        assert keys == sorted(keys)
    counters = json.loads((out / "_SUCCESS").read_text())["counters"]
    files = [path.read_bytes() for path in (tmp_path / "in").iterdir()]
    assert counters["lines"] == sum(len(text.splitlines_lf()) for text in map(Lines, files))
    # The combiner ran: fewer pairs went to the shuffle than words were read.
    assert counters["map output records"] < 12 * 800
    inline = job(WORDS, "--input", f"{tmp_path}/in/*", "--inline").stdout
    assert sorted(inline.encode("utf-8", "surrogateescape").splitlines()) == expected


class Lines(bytes):
    def splitlines_lf(self):
        return self.removesuffix(b"\n").split(b"\n") if self else []


STEPS = """
    import sys
    from fader_mapreduce import Job, Step

    class Top(Job):
        reduces = 2

        @classmethod
        def arguments(cls, parser):
            parser.add_argument("--but", default="", help="a word that is left out")

        def steps(self):
            return [
                Step(mapper=self.words, reducer=self.total),
                Step(mapper=self.swap, reducer=self.write_words),
            ]

        def words(self, source, line):
            print("what a job prints is no output")
            for word in line.split():
                if word != self.options.but:
                    yield word, 1

        def total(self, word, counts):
            yield word, sum(counts)

        def swap(self, word, count):
            yield -count, word

        def write_words(self, count, words):
            for word in words:
                yield word, -count
                if count <= -3:
                    self.write(1, None, word)

    if __name__ == "__main__":
        Top.run()
"""


def test_steps_flags_and_further_outputs(job, tmp_path):
    (tmp_path / "in").mkdir()
    text = b"it's it's it's a b b c \xff \xff \xff \xff skip'd\n"
    (tmp_path / "in/a.txt").write_bytes(text)
    out = tmp_path / "out"
    job(STEPS, "--input", tmp_path / "in", "--output", out, "--but", "skip'd", "--reduces", 1)
    counts = collections.Counter(text.split())
    del counts[b"skip'd"]
    # The most frequent first: numbers are in their order.
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    assert parts(out)["part-00000"] == b"".join(b"%s\t%d\n" % pair for pair in expected)
    assert (out / "output-1/part-00000").read_bytes() == b"\xff\nit's\n"
    success = json.loads((out / "_SUCCESS").read_text())
    assert [file["name"] for file in success["files"]] == ["part-00000", "output-1/part-00000"]
    assert success["files"][1]["records"] == 2
    assert sorted((tmp_path / "out-step-1").glob("part-*"))


def failing(mapper):
    return f"""
    import os, sys, time
    from fader_mapreduce import Job
    class Failing(Job):
        def mapper(self, source, line):
            {mapper}
    if __name__ == "__main__":
        Failing.run()
    """


@pytest.mark.parametrize(
    "mapper, said",
    [
        ("yield line, 1 / 0", "ZeroDivisionError"),
        ("os._exit(0)", "ended"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
        ("os.write(9, b'x' * 9) if line else None; return []", "OSError"),
        ("yield line, lambda: 0", "not JSON serializable"),
        ("yield 'a\\tb', 1", "has a TAB"),
    ],
)
def test_a_job_that_fails_says_why(job, tmp_path, mapper, said):
    (tmp_path / "in").write_text("one\ntwo\n")
    words = ["--input", tmp_path / "in", "--output", tmp_path / "out"]
    found = job(failing(mapper), *words, check=False)
    assert found.returncode == 1
    assert said in found.stderr
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_whole_objects_and_files_that_travel(job, tmp_path):
    (tmp_path / "in").mkdir()
    for name, data in [("a.bin", b"\x00\n\xff" * 5), ("b.bin", b"")]:
        (tmp_path / "in" / name).write_bytes(data)
    (tmp_path / "weights.json").write_text('{"a": 7}')
    text = f"""
    import json
    from fader_mapreduce import Job
    class Sizes(Job):
        whole = True
        files = [{str(tmp_path / "weights.json")!r}]
        output = "json"
        def mapper_init(self):
            self.weight = json.load(open("weights.json"))["a"]
        def mapper(self, name, data):
            yield name, len(data) * self.weight
    if __name__ == "__main__":
        Sizes.run()
    """
    out = tmp_path / "out"
    job(text, "--input", tmp_path / "in", "--output", out, "--reduces", 1)
    assert parts(out)["part-00000"] == b'"in/a.bin"\t105\n'


def test_workers_are_killed_and_the_job_ends_right(job, tmp_path):
    expected = write_corpus(tmp_path / "in", files=30, words=300)
    out = tmp_path / "out"
    begun = job(
        WORDS, "--input", f"{tmp_path}/in/*", "--output", out, "--submit", "--lease", "1s"
    ).stdout.strip()
    victim = start(tmp_path, "worker", out, "--job", begun)
    while not list((out / "_fader" / begun).glob("p-*")):
        assert victim.poll() is None
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    workers = [start(tmp_path, "worker", out, "--job", begun) for _ in range(2)]
    for worker in workers:
        _, told = worker.communicate(timeout=300)
        assert worker.returncode == 0, told
    assert lines(out) == expected


def test_an_interrupt_leaves_a_job_that_the_same_command_ends(job, tmp_path):
    expected = write_corpus(tmp_path / "in", files=10, words=300)
    out, gate = tmp_path / "out", tmp_path / "gate"
    waiting = WORDS.replace(
        'self.count("lines")',
        f"""self.count("lines")
            import os, time
            while not os.path.exists({str(gate)!r}):
                time.sleep(0.02)""",
    )
    words = ["--input", f"{tmp_path}/in/*", "--output", out]
    first = job(waiting, *words, begin=True)
    while True:
        status = fader("mapreduce", "status", out, "--json", home=tmp_path, check=False)
        if status.returncode == 0 and json.loads(status.stdout)["phases"][1]["running"]:
            break
    for pid in children(first.pid):
        os.kill(pid, signal.SIGINT)
    os.kill(first.pid, signal.SIGINT)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 130, told
    assert "the same command" in told
    gate.touch()
    job(waiting, *words)
    assert lines(out) == expected


def children(pid):
    """The processes that a process started; programs of a job have groups of their own."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))
