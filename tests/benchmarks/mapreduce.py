"""Word count and sort by `fader mapreduce`, beside a program of two threads, coreutils, engines
from PyPI and Hadoop, on the same files. Every output is compared with the first.

Two indexes of small files beside Hadoop, which gives each file a map task, or packs files as Fader
does; and with the shuffle `queue`. Hadoop runs one map task at a time, unless told. Maven has no
native library of it: Hadoop starts `ls` for each file that it lists.

A small job runs beside DuckDB's process. Workers with a small share of a core each have as much
input for each, and take as long as one. As many jobs of one worker each run at once, too: caches
and memory of a machine are shared, and such jobs share nothing else.

A peer that has shown that it is slower than promised is stopped. Memory is the greatest of a
process, as the kernel counted it."""

import contextlib
import hashlib
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import hadoops
import server as servers
from benchmarks import cluster as clusters
from benchmarks import small_files

BENCH = pathlib.Path(servers.BINARY).parent / "fader-bench"
MEGABYTES, MEGABYTES_SMALL = 512, 2
SORTED_MEGABYTES = 2048
FILE_MEGABYTES = 16
# Distinct words that may come; of 61 million some 7 million differ.
VOCABULARY, VOCABULARY_SMALL = 15_000_000, 100_000
MEMORIES_MB = [64, 512]
MEMORY_SHARE_MAX = 1.15
PEER_SECONDS_MAX = 3600

POLARS = """
import glob, sys, polars as pl
text = b"\\n".join(open(path, "rb").read() for path in sorted(glob.glob(sys.argv[1] + "/*")))
words = pl.DataFrame({"line": text.decode("latin-1").split("\\n")}).lazy()
words = words.select(pl.col("line").str.split(" ").explode().alias("word"))
words = words.filter(pl.col("word") != "").group_by("word").len()
words.collect().write_csv(sys.argv[2], separator="\\t", include_header=False, quote_style="never")
"""
DUCKDB = """
import sys, duckdb
words = f"select unnest(string_split(line, ' ')) as word from read_csv('{sys.argv[1]}/*', \
columns={{'line': 'varchar'}}, delim='\\x01', header=false, quote='', escape='')"
duckdb.sql(f"copy (select word, count(*) from ({words}) where word <> '' group by word) \
to '{sys.argv[2]}' (delimiter '\\t', header false, quote '')")
"""
DATAFUSION = """
import sys, pyarrow, datafusion
context = datafusion.SessionContext()
context.register_csv("lines", sys.argv[1] + "/", schema=pyarrow.schema([("line",
    pyarrow.string())]), has_header=False, delimiter="\x01", file_extension="")
words = "select unnest(string_to_array(line, ' ')) as word from lines"
context.sql(f"copy (select word, count(*) from ({words}) where word <> '' group by word) to \
'{sys.argv[2]}.csv' stored as csv options ('format.delimiter' '\t', 'format.has_header' \
'false')").collect()
"""
PYSPARK = """
import sys
from pyspark import SparkConf, SparkContext
settings = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
settings = settings.set("spark.driver.memory", "2g").set("spark.local.dir", sys.argv[2] + "-tmp")
context = SparkContext(conf=settings)
words = context.textFile(sys.argv[1]).flatMap(lambda line: line.split(" ")).filter(bool)
counts = words.map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other)
counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile("file://" + sys.argv[2])
"""
# Each engine with the ratio of times that it must show.
ENGINES = {"polars": (POLARS, 1), "duckdb": (DUCKDB, 1), "datafusion": (DATAFUSION, 1),
           "pyspark": (PYSPARK, 10)}
WORD_COUNT = ["org.apache.hadoop.examples.ExampleDriver", "wordcount"]
# A map task of packed files has at most so many, as Fader's.
SPLIT_BYTES = 64 << 20
# The ratio of times that Hadoop must show on small files; it is stopped where that is proven.
PROVEN = 1.25
PACKINGS = {"unpacked": 60, "packed": 10}
SKEWED_MEGABYTES, SKEWED_MEGABYTES_SMALL = 128, 2
SHARE = 0.2
WORKERS, WORKERS_SMALL = [1, 2, 4, 8], [1, 2]
# Files of input for each worker.
FILES_EACH = 32
LINEAR = 0.9


def write_text(folder, megabytes, word):
    """Lines of twelve words, each from a call of `word`."""
    folder.mkdir()
    for number in range(max(1, megabytes // FILE_MEGABYTES)):
        left = min(megabytes, FILE_MEGABYTES) << 20
        with open(folder / f"f{number:04}", "wb") as file:
            while 0 < left:
                words = [word() for _ in range(10_000)]
                lines = b"\n".join(b" ".join(words[at : at + 12]) for at in range(0, 10_000, 12))
                file.write(lines + b"\n")
                left -= len(lines) + 1


def write_words(folder, megabytes, vocabulary):
    """Lines of words of eight characters on average, in frequencies as of Zipf's law, with a long
    tail."""
    chance = random.Random(36)

    def word():
        # The inverse of a distribution whose density is 1 / x.
        number = int(vocabulary ** chance.random())
        # No digit is a letter of the end: numbers that differ are words that differ.
        return b"%x" % number + b"ghijklmno"[: number % 10]

    write_text(folder, megabytes, word)


def write_skewed(folder, megabytes):
    """Half of the words are one; of the others none is there twice."""
    chance = random.Random(38)
    write_text(folder, megabytes,
               lambda: b"the" if chance.random() < 0.5 else b"%x" % chance.getrandbits(48))


def write_lines(folder, megabytes):
    """Lines of 100 random characters."""
    chance = random.Random(37)
    folder.mkdir()
    for number in range(max(1, megabytes // FILE_MEGABYTES)):
        count = (min(megabytes, FILE_MEGABYTES) << 20) // 101
        text = chance.randbytes(50 * count).hex().encode()
        lines = (text[at : at + 100] for at in range(0, len(text), 100))
        (folder / f"f{number:04}").write_bytes(b"".join(line + b"\n" for line in lines))


def measured(command, seconds_max=PEER_SECONDS_MAX):
    """Seconds, and the greatest memory in MB, of a process; `None` if it was stopped."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=said)
        while True:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            taken = time.monotonic() - begun
            if found:
                process.returncode = os.waitstatus_to_exitcode(status)
                said.seek(0)
                assert process.returncode == 0, (command, process.returncode, said.read()[-4000:])
                return taken, usage.ru_maxrss / 1024
            if seconds_max < taken:
                process.kill()
                process.wait()
                return None
            time.sleep(0.005)


def digest(paths):
    """Of the lines of files, in the order of their bytes."""
    environment = os.environ | {"LC_ALL": "C"}
    sort = ["sort", *map(str, paths)]
    with subprocess.Popen(sort, stdout=subprocess.PIPE, env=environment) as process:
        return hashlib.file_digest(process.stdout, "sha256").hexdigest()


def joined(paths):
    """The digest of files, one behind the other."""
    found = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    return found.digest()


class Sides:
    """What is run on a folder of words or lines."""

    def __init__(self, folder):
        self.folder = folder
        self.numbers = itertools.count()

    def out(self):
        return self.folder / f"out-{next(self.numbers)}"

    def fader(self, program, source, memory_mb=1024, parts=8, shuffle="object"):
        out = self.out()
        command = [servers.BINARY, "mapreduce", "run", program, "--input", f"file://{source}",
                   "--output", f"file://{out}", "--memory", f"{memory_mb}MiB", "--reduces", parts,
                   "--shuffle", shuffle]
        taken = measured(command)
        return taken, sorted(out.glob("part-*"))

    def two_threads(self, source):
        out = self.out()
        taken = measured([BENCH, "words", "--input", source, "--output", out])
        return taken, sorted(out.glob("part-*"))

    def coreutils(self, source, seconds_max):
        out = self.out()
        pipe = ("cat $0/* | tr -s ' \\n' '\\n' | LC_ALL=C sort --parallel=2 -S 512M | uniq -c"
                " | awk '{print $2 \"\\t\" $1}' > $1")
        taken = measured(["bash", "-c", pipe, source, out], seconds_max)
        return taken, [out] if taken else []

    def engine(self, name, source, seconds_max):
        out = self.out()
        command = [engines(name), "-c", ENGINES[name][0], source, out]
        taken = measured(command, seconds_max)
        if not taken:
            return taken, []
        files = sorted(out.glob("part-*")) if out.is_dir() else [out, out.with_suffix(".csv")]
        return taken, [path for path in files if path.exists()]

    def hadoop(self, job, source, classes, seconds_max):
        out = self.out()
        settings = ["-D", "mapreduce.job.reduces=8", "-D",
                    f"mapreduce.input.fileinputformat.split.maxsize={SPLIT_BYTES}"]
        command = hadoops.command(classes, self.out(), job, *settings, source, out)
        taken = measured(command, seconds_max)
        return taken, sorted(out.glob("part-*")) if taken else []

    def sort(self, source):
        out = self.out()
        command = f"LC_ALL=C sort --parallel=2 -S 512M -T {self.folder} -o $0 $1/*"
        return measured(["bash", "-c", command, out, source]), [out]


def engines(name):
    """The interpreter of an environment that has a peer, as `NAME.txt` pins it."""
    folder = servers.ROOT / ".venv" / name
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        requirements = servers.ROOT / "tests" / "benchmarks" / f"{name}.txt"
        subprocess.run([*pip, "--requirement", requirements], check=True)
    return folder / "bin" / "python"


@contextlib.contextmanager
def emptied(folder):
    """Outputs of a round go at its end."""
    yield
    for path in folder.glob("out-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def corpus(options, folder):
    """A folder of words."""
    source = folder / "words"
    if options.small:
        write_words(source, MEGABYTES_SMALL, VOCABULARY_SMALL)
    else:
        write_words(source, MEGABYTES, VOCABULARY)
    return source


def count_words(options, report, folder):
    small = options.small
    source = corpus(options, folder)
    sides = Sides(folder)
    classes = None if small else hadoops.build()
    times, expected = {}, None
    for _ in range(options.runs):
        with emptied(folder):
            taken, files = sides.fader("word-count", source)
            ours = taken[0]
            found = {"fader": (taken, files), "two threads": sides.two_threads(source),
                     "coreutils": sides.coreutils(source, 20 * ours + 60)}
            if not small:
                for name in ENGINES:
                    found[name] = sides.engine(name, source, 20 * ours)
                found["hadoop"] = sides.hadoop(WORD_COUNT, source, classes, 25 * ours)
            for name, (one, files) in found.items():
                limit = (25 if name == "hadoop" else 20) * ours
                times.setdefault(name, []).append(one[0] if one else limit)
                if one is None:
                    continue
                same = digest(files)
                expected = expected or same
                report.promise(f"word count, {name}: the same lines", same == expected, "always")
            for memory in MEMORIES_MB:
                taken, files = sides.fader("word-count", source, memory)
                times.setdefault(f"{memory} MiB", []).append(taken[1])
                report.promise(f"word count in {memory} MiB: the same lines",
                               digest(files) == expected, "always")
    for name, values in times.items():
        if "MiB" not in name:
            report.series(f"word count, {name}", values, "s")
    report.ratio("word count: two threads' time / ours", times["two threads"], times["fader"], 0.5)
    report.ratio("word count: coreutils' time / ours", times["coreutils"], times["fader"], 1)
    bars = {name: least for name, (_, least) in ENGINES.items()}
    for name, least in (bars | {"hadoop": 20}).items():
        if name in times:
            report.ratio(f"word count: {name}'s time / ours", times[name], times["fader"], least)
    for memory in MEMORIES_MB:
        report.at_most(f"word count, --memory {memory}MiB: peak", times[f"{memory} MiB"],
                       MEMORY_SHARE_MAX * memory, "MB")


def bound_memory(options, report, folder):
    """Of each program on words of which half are one."""
    source = folder / "skewed"
    write_skewed(source, SKEWED_MEGABYTES_SMALL if options.small else SKEWED_MEGABYTES)
    sides = Sides(folder)
    for program in ["word-count", "inverted-index", "sort"]:
        parts = {}
        for memory in MEMORIES_MB:
            with emptied(folder):
                taken, files = sides.fader(program, source, memory)
                parts[memory] = joined(files)
                report.at_most(f"{program}, half one word, --memory {memory}MiB: peak",
                               [taken[1]], MEMORY_SHARE_MAX * memory, "MB")
        same = len(set(parts.values())) == 1
        report.promise(f"{program} in any memory: the same bytes", same, "always")


def sort_lines(options, report, folder):
    source = folder / "lines"
    write_lines(source, MEGABYTES_SMALL if options.small else SORTED_MEGABYTES)
    sides = Sides(folder)
    ours, theirs, peaks = [], [], []
    for _ in range(options.runs):
        with emptied(folder):
            taken, files = sides.fader("sort", source, 512)
            ours.append(taken[0])
            peaks.append(taken[1])
            other, peer = sides.sort(source)
            theirs.append(other[0])
            report.promise("sort: the same bytes", joined(files) == joined(peer), "always")
    report.series("sort, fader", ours, "s")
    report.series("sort, coreutils", theirs, "s")
    report.ratio("sort: coreutils' time / ours", theirs, ours, 1)
    report.at_most("sort, --memory 512MiB: peak", peaks, MEMORY_SHARE_MAX * 512, "MB")


def count_few_words(options, report, folder):
    """A job of 1 MB, as a process that begins and ends."""
    source = folder / "few"
    write_words(source, 1, VOCABULARY_SMALL)
    sides = Sides(folder)
    ours, theirs = [], []
    for _ in range(options.runs):
        with emptied(folder):
            taken, files = sides.fader("word-count", source)
            ours.append(taken[0])
            # A small run installs no peer.
            if options.small:
                continue
            taken, peer = sides.engine("duckdb", source, PEER_SECONDS_MAX)
            theirs.append(taken[0])
            report.promise("1 MB: the same lines", digest(files) == digest(peer), "always")
    report.series("word count of 1 MB, fader", ours, "s")
    if theirs:
        report.series("word count of 1 MB, DuckDB", theirs, "s")
        report.ratio("word count of 1 MB: DuckDB's time / ours", theirs, ours, 1)


def index(options, report, folder):
    source = folder / "sources"
    files = small_files.sources_small() if options.small else small_files.sources()
    small_files.write(source, files, options.small)
    index_by(options, report, folder, "inverted-index", source, PACKINGS)


def links(options, report, folder):
    source = folder / "pages"
    files = small_files.pages_small() if options.small else small_files.pages()
    small_files.write(source, files, options.small)
    index_by(options, report, folder, "reverse-links", source, PACKINGS)


def index_words(options, report, folder):
    """Large files are packed as they are."""
    packed = {"packed": PACKINGS["packed"]}
    index_by(options, report, folder, "inverted-index", corpus(options, folder), packed)


def index_by(options, report, folder, program, source, packings):
    """An index by both shuffles, and by Hadoop."""
    sides = Sides(folder)
    # A small run installs no peer.
    classes = None if options.small else hadoops.build()
    times = {}
    for _ in range(options.runs):
        with emptied(folder):
            found = {"object": sides.fader(program, source / "**"),
                     "queue": sides.fader(program, source / "**", shuffle="queue")}
            ours = found["object"][0][0]
            if not options.small:
                for packing, least in packings.items():
                    job = ["fader.Indexing", program, packing]
                    found[packing] = sides.hadoop(job, source, classes, PROVEN * least * ours)
            expected = digest(found["object"][1])
            for name, (taken, parts) in found.items():
                seconds = taken[0] if taken else PROVEN * PACKINGS[name] * ours
                times.setdefault(name, []).append(seconds)
                if taken:
                    same = digest(parts) == expected
                    report.promise(f"{program}, {name}: the same lines", same, "always")
    for name, values in times.items():
        report.series(f"{program}, {name}", values, "s")
    report.ratio(f"{program}: time by queue / by object", times["queue"], times["object"])
    for packing, least in packings.items():
        if packing in times:
            report.ratio(f"{program}: {packing} Hadoop's time / ours", times[packing],
                         times["object"], least)


def of_workers(source, outs, count):
    """Seconds of jobs on the same input by so many workers each, which have a share of a core."""
    command = [servers.BINARY, "mapreduce"]
    for out in outs:
        job = ["word-count", "--input", f"file://{source}", "--output", f"file://{out}",
               "--reduces", 4 * count, "--split", f"{FILE_MEGABYTES}MiB", "--no-backups"]
        subprocess.run(list(map(str, [*command, "submit", *job])), check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun = time.monotonic()
    with clusters.capped(SHARE) as cap:
        workers = []
        for out in [out for out in outs for _ in range(count)]:
            worker = [*command, "worker", f"file://{out}", "--slots", 1, "--memory", "256MiB",
                      "--quiet"]
            workers.append(subprocess.Popen(list(map(str, worker)), stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL))
            cap(f"w{len(workers)}", workers[-1].pid)
        while not all((out / "_SUCCESS").exists() for out in outs):
            assert any(worker.poll() is None for worker in workers), outs
            time.sleep(0.005)
        taken = time.monotonic() - begun
        for worker in workers:
            assert worker.wait() == 0, outs
    return taken


def share_work(options, report, folder):
    """So many workers, with as much input for each, take as long as one."""
    if reason := clusters.can_cap():
        print(f"workers: {reason}")
        report.missed += not options.small
        return
    each = folder / "each"
    write_words(each, FILE_MEGABYTES, VOCABULARY_SMALL)
    [one] = each.iterdir()
    sizes = WORKERS_SMALL if options.small else WORKERS
    for count in sizes:
        (folder / f"for-{count}").mkdir()
        for number in range(count * (1 if options.small else FILES_EACH)):
            os.link(one, folder / f"for-{count}" / f"f{number:04}")
    together, apart = {}, {}
    sides = Sides(folder)
    for _ in range(options.runs):
        for count in sizes:
            with emptied(folder):
                taken = of_workers(folder / f"for-{count}", [sides.out()], count)
                together.setdefault(count, []).append(taken)
            with emptied(folder):
                outs = [sides.out() for _ in range(count)]
                apart.setdefault(count, []).append(of_workers(folder / "for-1", outs, 1))
    for count in sizes:
        report.series(f"{count} workers of {SHARE:.0%} of a core", together[count], "s")
        report.series(f"{count} jobs of one such worker, at once", apart[count], "s")
        report.ratio(f"{count} workers: one's time / theirs", together[1], together[count])
        report.ratio(f"{count} workers: time of {count} jobs of one / theirs", apart[count],
                     together[count], LINEAR)


# Those that need a corpus of others are last.
PARTS = {"words": count_words, "memory": bound_memory, "few": count_few_words,
         "workers": share_work, "sort": sort_lines, "words-index": index_words, "index": index,
         "links": links}


def run(options, report):
    for name in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="fader-bench-", dir=options.scratch) as folder:
            PARTS[name](options, report, pathlib.Path(folder))
