"""`fader measure` at real servers: Fader, Redis with a replica, etcd."""

import json
import re
import subprocess

import pytest

import replicas
import server as servers


def measure(*words, home, code=0, **more):
    """What a command of `fader measure` prints."""
    ends = subprocess.run(
        [servers.BINARY, "measure", *map(str, words)], env=servers.environment(home, **more),
        capture_output=True, text=True, timeout=600,
    )
    assert ends.returncode == code, ends.stdout + ends.stderr
    return ends.stdout


def operations(path):
    """The operations of a log."""
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def simpledb(server):
    return f"simpledb://?endpoint={server.url}"


def test_threads_on_the_model_show_what_the_paper_claims(tmp_path):
    said = measure("threads", "--requests", 1000, home=tmp_path)
    assert said.count("holds  ") == 7 and "DOES NOT" not in said, said
    # The paper's means of one thread, times 1,000.
    assert re.search(r"1, the paper +110.00 +118.00", said), said


def due(path):
    """When the operations of a run were due, without the writes of records: seconds."""
    return sorted(one.get("intended", one["called"]) / 1e9 for one in operations(path)
                  if one["process"] < 1_000_000)


def test_bursts_come_again_and_again_and_a_log_is_replayed(tmp_path):
    bursts, again = tmp_path / "bursts.jsonl", tmp_path / "again.jsonl"
    measure("run", "a", "--rate", 10, "--to-rate", 200, "--burst", "1s", "--every", "4s",
            "--arrivals", "constant", "--for", "8s", "--log", bursts, home=tmp_path)
    times = due(bursts)
    begin = times[0]
    in_second = [sum(second <= time - begin < second + 1 for time in times) for second in range(8)]
    assert [round(count, -1) for count in in_second] == [200, 10, 10, 10] * 2, in_second
    measure("run", "b", "--replay", bursts, "--log", again, home=tmp_path)
    replayed = due(again)
    assert [round(time - replayed[0], 6) for time in replayed] \
        == [round(time - begin, 6) for time in times]


def test_a_load_that_makes_no_sense_is_refused(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"fader_log": 1, "clock": "virtual", "order": "told"}\n')
    for words in [("--rate", 10, "--to-rate", 20), ("--replay", empty),
                  ("--replay", tmp_path / "none"),
                  ("--rate", 1, "--to-rate", 9, "--burst", "2s", "--every", "1s"),
                  ("--rate", 1, "--replay", empty), ("--rate", 1, "--to-rate", 9, "--burst", "2s")]:
        measure("run", "a", *words, home=tmp_path, code=2)


def test_threads_on_a_server(server, tmp_path):
    out = tmp_path / "out"
    said = measure("threads", "--target", simpledb(server), "--requests", 100, "--threads", "1,8",
                   "--out", out, home=tmp_path, **servers.signing(server.url))
    assert "0 requests were refused or not answered" in said, said
    assert said.count("not measured") == 3, said
    assert {"put.svg", "get.svg", "threads.json"} <= {path.name for path in out.iterdir()}
    log = out / "get-consistent-1-8-1.jsonl"
    measured = [one for one in operations(log) if one["process"] < 100_000]
    # A thread that starts late may find all requests taken.
    assert len(measured) == 100 and {one["process"] for one in measured} <= set(range(8))
    assert {one["process"] for one in operations(log)} >= {100_000 + n for n in range(5)}
    # What consistent gets showed beside five writers has one order.
    checked = measure("check", log, "--of", "registers", "--levels", "strong", home=tmp_path)
    assert "violation" not in checked, checked


def test_overload_is_told_as_simpledb_tells_it(tmp_path):
    out = tmp_path / "out"
    limit = "gets=60/s+60,puts=60/s+60,latency=250ms"
    said = measure("overload", "--limit", limit, "--workers", 2, "--threads", 12, "--for", "3s",
                   "--out", out, home=tmp_path)
    one, two = json.loads((out / "overload.json").read_text())
    assert [len(one), len(two)] == [1, 2]
    unavailable = [sum(sum(told[kind]["unavailable"]) for told in of for kind in ("gets", "puts"))
                   for of in (one, two)]
    # One worker asks for 48 gets a second, two ask for 96.
    assert unavailable[0] == 0 < unavailable[1], said
    assert f"answers with 503: {sum(unavailable)} as in the paper but for the RequestID, 0" in said
    assert "503 now and then from 2 workers on" in said, said
    logs = [out / f"of-2-worker-{number}.jsonl" for number in (1, 2)]
    measure("check", *logs, "--of", "registers", "--levels", "strong,conditional", home=tmp_path)


def test_workers_of_an_overload_are_map_tasks_of_a_job(tmp_path):
    place = tmp_path / "jobs"
    limit = "gets=60/s+60,puts=60/s+60,latency=250ms"
    said = measure("overload", "--limit", limit, "--workers", 2, "--threads", 12, "--for", "3s",
                   "--job", place, home=tmp_path)
    told = [[json.loads(line) for line in open(place / f"of-{workers}/out/output-1/part-00000")]
            for workers in (1, 2)]
    assert [len(of) for of in told] == [1, 2]
    unavailable = [sum(sum(one[kind]["unavailable"]) for one in of for kind in ("gets", "puts"))
                   for of in told]
    assert unavailable[0] == 0 < unavailable[1], said
    # The reducer merged the logs: all threads of both workers are in one.
    merged = tmp_path / "merged.jsonl"
    merged.write_bytes((place / "of-2/out/part-00000").read_bytes())
    assert len({one["process"] for one in operations(merged)}) == 2 * 2 * 12
    measure("check", merged, "--of", "registers", "--levels", "strong,conditional", home=tmp_path)


def test_overload_finds_another_body(tmp_path):
    """A server that is none answers 503 in other words."""
    with replicas.unavailable() as url:
        said = measure("overload", "--target", f"simpledb://?endpoint={url}", "--workers", 1,
                       "--threads", 1, "--for", "300ms", home=tmp_path, code=1,
                       **servers.signing(url))
    assert "0 as in the paper" in said and "such as busy" in said, said


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """The URL of Redis with a replica."""
    with replicas.redis_pair(tmp_path_factory.mktemp("redis")) as (primary, replica):
        yield f"redis://127.0.0.1:{primary}?replica=127.0.0.1:{replica}&wait=1"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    """The URL of three members of etcd."""
    with replicas.etcd_members(tmp_path_factory.mktemp("etcd")) as members:
        yield "etcd://" + ",".join(members.clients)


def run_and_check(url, home, workload="a", levels="strong,eventual", **more):
    """Loads a service; its log, whose strong operations have one order."""
    log = home / "run.jsonl"
    said = measure("run", workload, "--closed", 4, "--for", "1s", "--records", 3, "--target", url,
                   "--levels", levels, "--log", log, home=home, **more)
    assert " 0 refused or not answered" in said, said
    done = operations(log)
    assert all(one["place"] for one in done if one["action"] != "read"
               and one["outcome"] == "done"), said
    measure("check", log, "--of", "registers", "--levels", "strong", home=home)
    return done, measure("check", log, "--of", "staleness", home=home)


def test_redis_is_loaded_and_judged(redis, tmp_path):
    done, said = run_and_check(redis, tmp_path)
    assert {one["level"] for one in done} == {"strong", "eventual"}
    assert "reads" in said, said
    # Nothing stays.
    port = int(redis.split(":")[2].split("?")[0])
    assert replicas.redis_command(port, "DBSIZE").strip() == ":0"


def test_correct_scans_are_no_violation(redis, etcd, server, tmp_path):
    for url in [redis, etcd, simpledb(server)]:
        run_and_check(url, tmp_path, workload="e", levels="strong", **servers.signing(server.url))


def test_redis_swaps(redis, tmp_path):
    done, _ = run_and_check(redis, tmp_path, workload="f", levels="strong")
    outcomes = {one["outcome"] for one in done if one["action"] == "swap"}
    assert outcomes == {"done", "unmet"}


def test_etcd_is_loaded_and_judged(etcd, tmp_path):
    done, _ = run_and_check(etcd, tmp_path, workload="f")
    outcomes = {one["outcome"] for one in done if one["action"] == "swap"}
    assert outcomes == {"done", "unmet"}


def test_fader_is_loaded_at_its_own_levels(server, tmp_path):
    levels = "strong=2,barrier,eventual; r=1; w=1; session"
    done, said = run_and_check(simpledb(server), tmp_path, levels=levels,
                               **servers.signing(server.url))
    assert {one["level"] for one in done} >= {"barrier", "eventual; r=1; w=1; session"}
    assert "reads" in said, said


def test_a_wrong_target_is_explained(tmp_path):
    for words, part in [
        (["--target", "redis://nowhere"], "expected redis://HOST:PORT"),
        (["--target", "etcd://a,b"], "expected etcd://HOST:PORT"),
        (["--target", "nowhere"], "expected `model`"),
        (["--levels", "fast"], "'fast' is no level"),
        (["--levels", "barrier"], "Fader's are for simpledb://"),
    ]:
        ends = subprocess.run(
            [servers.BINARY, "measure", "run", "a", "--closed", "1", *words],
            env=servers.environment(tmp_path), capture_output=True, text=True, timeout=60,
        )
        assert ends.returncode == 2 and part in ends.stderr, ends.stderr
