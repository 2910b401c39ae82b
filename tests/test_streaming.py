"""`fader mapreduce streaming`: executables as mappers and reducers, as in Hadoop Streaming."""

import json
import sys
import textwrap

import pytest

from server import fader
from test_mapreduce import lines, parts, start, write_corpus

MAPPER = """
    import os, sys
    for line in sys.stdin.buffer:
        for word in line.split():
            sys.stdout.buffer.write(word + b"\\t1\\n")
    print("reporter:counter:words,files,1", file=sys.stderr)
"""
REDUCER = """
    import sys
    key, total = None, 0
    for line in sys.stdin:
        word, count = line.rstrip("\\n").split("\\t")
        if word != key:
            if key is not None:
                print(f"{key}\\t{total}")
            key, total = word, 0
        total += int(count)
    if key is not None:
        print(f"{key}\\t{total}")
"""


@pytest.fixture
def streaming(tmp_path):
    """Runs a job, with scripts of these names and texts."""

    def run(*words, scripts=None, check=True, **more):
        for name, text in (scripts or {}).items():
            (tmp_path / name).write_text(f"#!{sys.executable}\n" + textwrap.dedent(text))
        return fader(
            "mapreduce", "streaming", *map(str, words), home=tmp_path, check=check, **more
        )

    return run


def java_hash(key):
    """Hadoop's partition of a `Text`."""
    number = 1
    for byte in key:
        number = (31 * number + byte - (256 if byte > 127 else 0)) & 0xFFFFFFFF
    return number & 0x7FFFFFFF


def test_python_counts_words_as_the_built_in_program_does(streaming, tmp_path):
    expected = write_corpus(tmp_path / "in", files=6, words=300)
    out = tmp_path / "out"
    files = f"{tmp_path}/m.py,{tmp_path}/r.py#reduce.py"
    streaming(
        "-files", files, "-input", tmp_path / "in", "-output", out, "-numReduceTasks", 4,
        "-mapper", "m.py", "-reducer", "reduce.py", "-combiner", "reduce.py",
        scripts={"m.py": MAPPER, "r.py": REDUCER},
    )  # fmt: skip
    assert lines(out) == expected
    # The parts are Hadoop's: keys by its hash, in the order of bytes.
    for number, text in enumerate(parts(out).values()):
        keys = [line.split(b"\t")[0] for line in text.splitlines()]
        assert keys == sorted(keys)
        assert {java_hash(key) % 4 for key in keys} <= {number}
    success = json.loads((out / "_SUCCESS").read_text())
    assert success["counters"]["words: files"] == 6


def test_keys_have_fields_an_order_and_partitions(streaming, tmp_path):
    """The example of Hadoop's documentation."""
    (tmp_path / "in").write_text("11.12.1.2\n11.14.2.3\n11.11.4.1\n11.12.1.1\n11.14.2.2\n")
    library = "org.apache.hadoop.mapred.lib"
    streaming(
        "-D", f"mapreduce.job.output.key.comparator.class={library}.KeyFieldBasedComparator",
        "-D", "stream.map.output.field.separator=.",
        "-D", "stream.num.map.output.key.fields=4",
        "-D", "mapreduce.map.output.key.field.separator=.",
        "-D", "mapreduce.partition.keypartitioner.options=-k1,2",
        "-D", "mapreduce.partition.keycomparator.options=-k2,2nr",
        "-D", "mapreduce.job.reduces=1",
        "-input", tmp_path / "in", "-output", tmp_path / "out",
        "-mapper", "cat", "-reducer", "cat",
        "-partitioner", f"{library}.KeyFieldBasedPartitioner",
    )  # fmt: skip
    found = (tmp_path / "out" / "part-00000").read_text().split()
    assert found == ["11.14.2.2", "11.14.2.3", "11.12.1.1", "11.12.1.2", "11.11.4.1"]


def test_programs_know_their_task_and_no_credentials(streaming, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\r\ntwo\rthree")
    script = """
        import os, sys
        text = sys.stdin.read()
        assert text == "one\\ntwo\\nthree\\n", text
        for name in ["mapreduce_map_input_file", "mapreduce_task_partition", "my_setting", "LEVEL"]:
            print(f"{name}\\t{os.environ[name]}")
        print("secrets", [name for name in os.environ if "AWS" in name or "SECRET" in name])
        print(sorted(os.listdir(".")), os.path.expanduser("~") == os.getcwd())
    """
    streaming(
        "-files", tmp_path / "m.py", "-input", tmp_path / "in", "-output", tmp_path / "out",
        "-mapper", "m.py", "-Dmy.setting=3", "-cmdenv", "LEVEL=9",
        scripts={"m.py": script}, AWS_SECRET_ACCESS_KEY="do-not-tell", AWS_ACCESS_KEY_ID="me",
    )  # fmt: skip
    assert (tmp_path / "out" / "part-00000").read_text().splitlines() == [
        "LEVEL\t9",
        "['m.py'] True\t",
        "mapreduce_map_input_file\tin/a.txt",
        "mapreduce_task_partition\t0",
        "my_setting\t3",
        "secrets []\t",
    ]


def test_a_program_that_fails_ends_the_job_and_says_why(streaming, tmp_path):
    (tmp_path / "in").write_text("x\n")
    common = ["-input", tmp_path / "in", "-output", tmp_path / "out"]
    said = streaming(*common, "-mapper", "sh -c 'echo no such key >&2; exit 3'", check=False)
    assert said.returncode == 1
    assert "ended with exit code 3: no such key" in said.stderr
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    hanging = "mapreduce.task.timeout=100"
    said = streaming("-D", hanging, *common, "-mapper", "sleep 1000", check=False)
    assert "neither read nor wrote for 100 ms" in said.stderr
    said = streaming(*common, "-mapper", "no-such-program", check=False)
    assert "no-such-program" in said.stderr and "does not start" in said.stderr
    said = streaming(*common, "-mapper", "org.apache.hadoop.X", check=False)
    assert "classes of Java" in said.stderr


def test_only_workers_that_are_told_the_job_run_its_programs(streaming, tmp_path):
    (tmp_path / "in").write_text("b\na\n")
    out = tmp_path / "out"
    job = streaming(
        "--submit", "-input", tmp_path / "in", "-output", out, "-mapper", "cat", "-reducer", "cat"
    ).stdout.strip()
    said = fader("mapreduce", "worker", out, home=tmp_path, check=False)
    assert said.returncode == 1 and "--job ID" in said.stderr
    workers = [start(tmp_path, "worker", out, "--job", job) for _ in range(2)]
    for worker in workers:
        worker.communicate(timeout=300)
        assert worker.returncode == 0
    assert lines(out) == [b"a\t", b"b\t"]


def test_killed_workers_leave_the_same_output(streaming, tmp_path):
    """One of two workers is killed in the middle of a program; the other one takes over."""
    (tmp_path / "in").mkdir()
    for number in range(8):
        (tmp_path / "in" / f"{number}").write_text(f"{number} x\n" * 50)
    # Until the file is there, a mapper goes on writing: the worker dies while it does.
    gate = tmp_path / "gate"
    script = f"""
        import os, sys, time
        while not os.path.exists({str(gate)!r}):
            print("reporter:status:waits", file=sys.stderr, flush=True)
            time.sleep(0.02)
        for line in sys.stdin:
            print(line.split()[0], 1, sep="\\t")
    """
    out = tmp_path / "out"
    job = streaming(
        "--submit", "--lease", "2s",
        "-files", tmp_path / "m.py", "-input", tmp_path / "in", "-output", out,
        "-mapper", "m.py", "-D", "mapreduce.input.fileinputformat.split.maxsize=100",
        scripts={"m.py": script},
    ).stdout.strip()  # fmt: skip
    victim = start(tmp_path, "worker", out, "--job", job)
    while True:
        status = fader("mapreduce", "status", out, "--json", home=tmp_path)
        if json.loads(status.stdout)["phases"][1]["running"]:
            break
    victim.kill()
    victim.communicate()
    gate.touch()
    other = start(tmp_path, "worker", out, "--job", job)
    other.communicate(timeout=300)
    assert other.returncode == 0
    assert lines(out) == sorted(b"%d\t1" % number for number in range(8) for _ in range(50))
