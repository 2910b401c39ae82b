"""Hadoop 3.4.2 and `fader mapreduce`: four streaming jobs, whose parts are equal byte by byte, and
two indexes of files, whose lines are."""

import random
import subprocess
import sys
import textwrap

import pytest

import hadoops
import server as servers
from test_mapreduce import lines, parts, write_corpus

STREAMING = ["org.apache.hadoop.streaming.HadoopStreaming"]
LIBRARY = "org.apache.hadoop.mapred.lib"
JOB_SECONDS_MAX = 300

COUNT = """
    import itertools, sys
    lines = (line.rstrip(b"\\n").partition(b"\\t") for line in sys.stdin.buffer)
    for word, of in itertools.groupby(lines, key=lambda parts: parts[0]):
        print("reporter:counter:words,different,1", file=sys.stderr)
        sys.stdout.buffer.write(b"%s\\t%d\\n" % (word, sum(int(count) for _, _, count in of)))
"""
WORDS = """
    import sys
    for line in sys.stdin.buffer:
        for word in line.split():
            sys.stdout.buffer.write(word + b"\\t1\\n")
"""
NAMES = """
    import os, sys
    name = os.path.basename(os.environ["mapreduce_map_input_file"]).encode()
    for word in {word for line in sys.stdin.buffer for word in line.split()}:
        sys.stdout.buffer.write(word + b"\\t" + name + b"\\n")
"""
INDEX = """
    import itertools, sys
    lines = (line.rstrip(b"\\n").partition(b"\\t") for line in sys.stdin.buffer)
    for word, of in itertools.groupby(lines, key=lambda parts: parts[0]):
        sys.stdout.buffer.write(word + b"\\t" + b" ".join(sorted(name for *_, name in of)) + b"\\n")
"""
NUMBERED = """
    import os, sys
    for number, line in enumerate(sys.stdin.buffer):
        assert os.environ["mapreduce_task_ismap"] == "false"
        sys.stdout.buffer.write(b"%d:%s\\n" % (number, line.rstrip(b"\\n")))
"""


@pytest.fixture(scope="module")
def hadoop():
    """Runs a job in Hadoop's own process."""
    classes = hadoops.build()

    def run(where, job, *words):
        command = hadoops.command(classes, where, job, *words)
        done = subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=JOB_SECONDS_MAX
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def script(folder, name, text):
    path = folder / name
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(text))
    path.chmod(0o755)
    return path


def compare(hadoop, tmp_path, *words):
    """The parts of both; the words end with those that Hadoop's generic parser must see first."""
    common = ["-input", tmp_path / "in"]
    hadoop(tmp_path, STREAMING, *words, *common, "-output", tmp_path / "theirs")
    arguments = map(str, [*words, *common, "-output", tmp_path / "ours"])
    servers.fader("mapreduce", "streaming", *arguments, home=tmp_path)
    ours, theirs = parts(tmp_path / "ours"), parts(tmp_path / "theirs")
    assert list(ours) == list(theirs)
    for name, text in theirs.items():
        assert ours[name] == text, name
    assert sum(map(len, theirs.values())) > 0


@pytest.mark.clouds
def test_word_count_with_a_combiner(hadoop, tmp_path):
    write_corpus(tmp_path / "in", files=5, words=2_000)
    (tmp_path / "in/bytes.txt").write_bytes(b"\xff\xfe caf\xc3\xa9 \xff\xfe\r\nword\rword")
    words = script(tmp_path, "words.py", WORDS), script(tmp_path, "count.py", COUNT)
    compare(
        hadoop, tmp_path, "-files", ",".join(map(str, words)), "-mapper", "words.py",
        "-combiner", "count.py", "-reducer", "count.py", "-numReduceTasks", "4",
    )  # fmt: skip


@pytest.mark.clouds
def test_inverted_index_by_names_of_files(hadoop, tmp_path):
    write_corpus(tmp_path / "in", files=9, words=300)
    files = script(tmp_path, "names.py", NAMES), script(tmp_path, "index.py", INDEX)
    compare(
        hadoop, tmp_path, "-files", ",".join(map(str, files)), "-mapper", "names.py",
        "-reducer", "index.py", "-numReduceTasks", "3",
    )  # fmt: skip


@pytest.mark.clouds
def test_keys_of_two_fields_in_an_order_of_their_own(hadoop, tmp_path):
    draw = random.Random(4)
    (tmp_path / "in").mkdir()
    lines = {f"g{draw.randrange(9)}.{draw.randrange(-50, 5000)}.x" for _ in range(3_000)}
    (tmp_path / "in/a").write_text("\n".join(sorted(lines)) + "\n")
    compare(
        hadoop, tmp_path,
        "-D", f"mapreduce.job.output.key.comparator.class={LIBRARY}.KeyFieldBasedComparator",
        "-D", "stream.map.output.field.separator=.",
        "-D", "stream.num.map.output.key.fields=2",
        "-D", "mapreduce.map.output.key.field.separator=.",
        "-D", "mapreduce.partition.keypartitioner.options=-k1,1",
        "-D", "mapreduce.partition.keycomparator.options=-k1,1 -k2,2nr",
        "-D", "mapreduce.job.reduces=3",
        "-mapper", "cat", "-reducer", "cat",
        "-partitioner", f"{LIBRARY}.KeyFieldBasedPartitioner",
    )  # fmt: skip


@pytest.mark.clouds
def test_separators_and_lines_without_values(hadoop, tmp_path):
    (tmp_path / "in").mkdir()
    lines = [f"k{number},{number % 7}" if number % 3 else f"alone{number}" for number in range(500)]
    (tmp_path / "in/a").write_text("\n".join(lines))
    path = script(tmp_path, "numbered.py", NUMBERED)
    compare(
        hadoop, tmp_path,
        "-D", "stream.map.output.field.separator=,",
        "-D", "stream.reduce.input.field.separator=|",
        "-D", "stream.reduce.output.field.separator=:",
        "-D", "mapreduce.output.textoutputformat.separator=;",
        "-files", path, "-mapper", "cat", "-reducer", "numbered.py", "-numReduceTasks", "2",
    )  # fmt: skip


# Text in which words and links are easily taken for others.
PAGES = {
    "i.html": b"<a href='./a/../x'> one<A HREF = \"a/b/c.html\"> two <a href='#top'> <a href='.'>",
    "a/i.html": b"\xef\xbb\xbfone <a href='b/c.html#y'> <a href='b/c.html'> <a href='/i?a:b'>\r\n",
    "a/b/c.html": b"<a href=\n'../../../i.html'> href <a href=none> href='https://x/y#z' //h:1/p",
    "a/b/d.html": b"one\x0btwo\x0cone <a href=' \xff\xc3\xa9 '> href='a\tb' href=\"'//h/p'\"",
    "a/e.html": b"href='//h/p' href='a#b' href=\"no end href='f'\nhref='g'\n",
    "a/empty.html": b"",
}


@pytest.mark.clouds
@pytest.mark.parametrize("packing", ["unpacked", "packed"])
@pytest.mark.parametrize("program", ["inverted-index", "reverse-links"])
def test_indexes_of_files(hadoop, tmp_path, program, packing):
    for name, text in PAGES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    job = ["fader.Indexing", program, packing]
    places = [tmp_path / "in", tmp_path / "theirs"]
    hadoop(tmp_path, job, "-D", "mapreduce.job.reduces=3", *places)
    source = f"file://{tmp_path}/in/**"
    servers.fader("mapreduce", "run", program, "--input", source, "--output", tmp_path / "ours",
                  home=tmp_path)
    assert lines(tmp_path / "ours") == lines(tmp_path / "theirs")
    assert len(lines(tmp_path / "ours")) > 7
