"""What others make of our logs: HdrHistogram for Java and Python, YCSB's keys, Porcupine."""

import collections
import json
import math
import pathlib
import subprocess

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

import made
import server as servers
from porcupine import agree

HERE = pathlib.Path(__file__).resolve().parent
SHARES = [0, 0.5, 0.9, 0.99, 0.999, 1]
# One hour, and three digits.
NANOS_MAX, DIGITS = 3_600_000_000_000, 3
KEYS = ["uniform", "zipfian", "scrambled", "latest", "hotspot", "exponential"]
ITEMS, DRAWS = 50, 10_000


def measure(home, *words):
    """What a command of `fader measure` prints."""
    return servers.fader("measure", *map(str, words), home=home).stdout


@pytest.fixture(scope="module")
def java():
    """Runs the judge in Java; the words of each line that it prints."""
    path = made.java("java_judge")

    def judge(*words):
        command = ["java", *made.JAVA_FLAGS, "-cp", path, "fader.Judge", *map(str, words)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        return [line.split() for line in done.stdout.splitlines()]

    return judge


def test_histograms_are_read_by_java_and_python(java, tmp_path):
    log, hlog = tmp_path / "run.jsonl", tmp_path / "run.hlog"
    measure(tmp_path, "run", "a", "--rate", 300, "--for", "10s", "--levels", "strong,eventual=2",
            "--log", log, "--hlog", hlog)
    times = collections.defaultdict(list)
    for line in log.read_text().splitlines()[1:]:
        one = json.loads(line)
        # What wrote the records is in no figure.
        if one["process"] < 1_000_000 and one["outcome"] == "done":
            times[one["level"]].append(one["returned"] - one.get("intended", one["called"]))
    by_python = collections.defaultdict(lambda: HdrHistogram(1, NANOS_MAX, DIGITS))
    reader = HistogramLogReader(str(hlog), HdrHistogram(1, NANOS_MAX, DIGITS))
    while (interval := reader.get_next_interval_histogram()) is not None:
        by_python[interval.get_tag()].add(interval)
    assert set(times) == set(by_python) == {"strong", "eventual"}
    for level, of_level in times.items():
        of_level.sort()
        # Java rounds ranks up, Python to the nearest: these are whole in both.
        ranks = [max(round(share * len(of_level)), 1) for share in SHARES]
        percentiles = [100 * rank / len(of_level) for rank in ranks]
        by_java = {tag: [int(one) for one in rest]
                   for tag, *rest in java("hlog", hlog, *percentiles)}
        count, *values = by_java[level]
        of_python = by_python[level]
        assert count == of_python.get_total_count() == len(of_level)
        assert values == [of_python.get_value_at_percentile(it) for it in percentiles]
        for rank, value in zip(ranks, values, strict=True):
            assert value == pytest.approx(of_level[rank - 1], rel=1e-3), rank


def chi_square(ours, theirs):
    """Pearson's statistic of two samples of as many draws, and its degrees of freedom. Keys that
    are drawn less than ten times in both together are one."""
    rare = [0, 0]
    cells = []
    for pair in zip(ours, theirs, strict=True):
        if sum(pair) < 10:
            rare = [rare[0] + pair[0], rare[1] + pair[1]]
        else:
            cells.append(pair)
    cells += [rare] if sum(rare) else []
    statistic = sum((one - other) ** 2 / (one + other) for one, other in cells)
    return statistic, len(cells) - 1


def test_keys_are_drawn_as_ycsb_draws_them(java, tmp_path):
    theirs = {name: [int(count) for count in counts]
              for name, *counts in java("keys", ITEMS, DRAWS)}
    assert sorted(theirs) == sorted(KEYS)
    for name in KEYS:
        log = tmp_path / f"{name}.jsonl"
        measure(tmp_path, "run", "c", "--keys", name, "--records", ITEMS, "--rate", DRAWS / 10,
                "--arrivals", "constant", "--for", "10s", "--log", log)
        ours = [0] * ITEMS
        for line in log.read_text().splitlines()[1:]:
            one = json.loads(line)
            if one["process"] < 1_000_000:
                ours[int(one["key"].removeprefix("item-"))] += 1
        assert sum(ours) == DRAWS
        statistic, freedom = chi_square(ours, theirs[name])
        # Wilson and Hilferty: six standard deviations, since YCSB draws by the clock.
        bound = freedom * (1 - 2 / (9 * freedom) + 6 * math.sqrt(2 / (9 * freedom))) ** 3
        assert statistic < bound, (name, statistic, freedom)
        # The test tells distributions apart.
        others = [chi_square(ours, theirs[other])[0] for other in KEYS if other != name]
        assert all(bound < other for other in others), (name, others)


def test_search_and_porcupine_agree(tmp_path):
    agree.build()
    verdicts = agree.random_histories([servers.BINARY, "measure"], 1000, tmp_path)
    # Both verdicts are there.
    assert 50 < min(verdicts.values()), verdicts
