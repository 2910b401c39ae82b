"""`fader db`: a database in a folder, written by several programs at once."""

import csv
import json
import random
import subprocess
import time

import pytest

from server import BINARY, fader


@pytest.fixture
def db(tmp_path):
    url = f"file://{tmp_path}/shop"

    def run(command, *arguments, **more):
        return fader("db", command, url, *map(str, arguments), home=tmp_path, **more)

    run.url = url
    run("create", "books", "--key", "isbn")
    return run


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["isbn", "title"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows(numbers):
    return [{"isbn": f"{number:06}", "title": f"title, \"{number}\""} for number in numbers]


def exported(db):
    return [json.loads(line) for line in db("export", "books").stdout.splitlines()]


def test_a_record_is_written_read_and_deleted(db):
    db("put", "books", "k", "one two")
    assert db("get", "books", "k").stdout == "one two\n"
    priced = db("put", "books", "k", "-3", "--level", "atomic", "--cost")
    assert "commit" in priced.stderr and "aws-2026" in priced.stderr
    assert db("get", "books", "k").stdout == "-3\n"
    db("delete", "books", "k")
    gone = db("get", "books", "k", check=False)
    assert gone.returncode == 1 and "no record" in gone.stderr


def test_a_file_comes_back_as_it_was(db, tmp_path):
    given = rows(range(2_500))
    told = db("import", "books", write_csv(tmp_path / "books.csv", given), "--level", "atomic")
    assert "2500 lines are committed" in told.stderr
    assert exported(db) == given
    table = db("export", "books", "--format", "csv").stdout
    assert list(csv.DictReader(table.splitlines())) == given
    part = db("scan", "books", "--from", "000010", "--until", "000020", "--limit", "5").stdout
    keys = [line.split("\t")[0] for line in part.splitlines()]
    assert keys == [f"0000{number}" for number in range(10, 15)]
    assert "2500 records" in db("verify").stdout
    assert "books" in db("stat").stdout


def test_records_in_any_order_are_loaded_at_once(db, tmp_path):
    given = rows(range(3_000))
    shuffled = given[::-1][1::2] + given[::-1][::2]
    shuffled.append({"isbn": "000007", "title": "the last counts"})
    db("import", "books", write_csv(tmp_path / "books.csv", shuffled))
    given[7]["title"] = "the last counts"
    assert exported(db) == given
    assert "3000 records" in db("verify").stdout
    again = db("import", "books", write_csv(tmp_path / "more.csv", rows(range(3_000, 3_100))))
    assert "100 lines are committed" in again.stderr
    assert len(exported(db)) == 3_100


def test_programs_that_write_at_once_lose_nothing(db, tmp_path):
    programs = []
    for number in range(4):
        part = rows(range(number, 2_000, 4))
        path = write_csv(tmp_path / f"{number}.csv", part)
        command = [BINARY, "db", "import", db.url, "books", path]
        programs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for program in programs:
        _, told = program.communicate(timeout=300)
        assert program.returncode == 0, told
    assert exported(db) == rows(range(2_000))
    assert "2000 records" in db("verify").stdout


def test_bad_lines_are_named_or_counted(db, tmp_path):
    path = tmp_path / "bad.jsonl"
    lines = ['{"isbn": "1"}', '{"isbn": ', '{"title": "no key"}', '{"isbn": 2}']
    path.write_text("\n".join(lines))
    refused = db("import", "books", path, check=False)
    assert refused.returncode != 0
    assert "line 2: it is no JSON object: column 9: EOF while" in refused.stderr
    counted = db("import", "books", path, "--skip-bad", check=False)
    assert counted.returncode == 1
    assert "2 lines are committed, 2 bad ones" in counted.stderr
    assert [record["isbn"] for record in exported(db)] == ["1", 2]


@pytest.mark.parametrize(("text", "told"), [
    ("isbn,title\n1,a\n2,b,c\n3,d\n", "line 3: 3 fields, the header has 2"),
    ("isbn,title\n1,a\n2,\xff\n3,d\n", "line 3: field 2 is no UTF-8"),
    ("isbn,title\n1,a\n3,d\n2,\"b\n4,e\n", "line 4: a quote is not closed"),
    ("isbn,title\n1,a\n3,d\n2,\"b\n4,\"e\",f\"\n", "line 4: 3 fields, the header has 2"),
])
def test_a_bad_line_of_csv_is_named_and_counted(db, tmp_path, text, told):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="latin-1")
    refused = db("import", "books", path, check=False)
    assert refused.returncode == 1 and f"error: {told}" in refused.stderr
    assert exported(db) == []
    counted = db("import", "books", path, "--skip-bad", check=False)
    assert counted.returncode == 1 and told in counted.stderr
    assert "2 lines are committed, 1 bad ones" in counted.stderr
    assert [record["isbn"] for record in exported(db)] == ["1", "3"]


def test_quotes_that_are_closed_are_no_bad_lines(db, tmp_path):
    path = tmp_path / "good.csv"
    path.write_text('\ufeff"isbn","title, of\nit"\r\n1,"a ""b"""\r\n2,5" tall\r\n3,"c"')
    db("import", "books", path)
    assert [record["title, of\nit"] for record in exported(db)] == ['a "b"', '5" tall', "c"]


def test_a_bad_header_of_csv_is_refused(db, tmp_path):
    path = tmp_path / "bad.csv"
    for text, told in [("isbn,title,isbn\n1,a,2\n", 'column "isbn" is there twice'),
                       ('isbn,"title\n1,a\n', "a quote is not closed")]:
        path.write_text(text)
        refused = db("import", "books", path, "--skip-bad", check=False)
        assert refused.returncode == 1 and f"the header: {told}" in refused.stderr
    assert exported(db) == []


def test_a_file_that_cannot_be_read_ends_an_import(db, tmp_path):
    (tmp_path / "folder").mkdir()
    for form in ("json", "csv"):
        refused = db("import", "books", tmp_path / "folder", "--format", form, "--skip-bad",
                     check=False)
        assert refused.returncode == 1 and "Is a directory" in refused.stderr
        assert len(refused.stderr) < 1_000


@pytest.mark.parametrize("how", [[], ["--transactions"]])
def test_keys_too_long_for_an_index_are_named_and_counted(db, tmp_path, how):
    db("create", "films", "--key", "name", "--index", "year")
    path = tmp_path / "films.jsonl"
    films = [{"name": "a", "year": 1}, {"name": "k" * 513, "year": 1}, {"name": "b", "year": 1}]
    path.write_text("\n".join(map(json.dumps, films)))
    refused = db("import", "films", path, *how, check=False)
    assert refused.returncode == 1
    assert "line 2: a key of 513 bytes: at most 512 are possible" in refused.stderr
    counted = db("import", "films", path, "--skip-bad", *how, check=False)
    assert "2 lines are committed, 1 bad ones" in counted.stderr


def test_impossible_requests_are_refused_in_words(db, tmp_path):
    again = db("create", "books", check=False)
    assert again.returncode != 0 and "is there already" in again.stderr
    missing = db("get", "films", "k", check=False)
    assert missing.returncode != 0 and "no collection" in missing.stderr
    db("create", "orders", "--minimum", "atomic")
    weak = db("put", "orders", "k", "v", check=False)
    assert weak.returncode != 0 and "atomic" in weak.stderr
    (tmp_path / "empty").mkdir()
    nowhere = fader("db", "stat", f"file://{tmp_path}/empty", home=tmp_path, check=False)
    assert nowhere.returncode != 0 and "create one first" in nowhere.stderr
    unsure = db("drop", "books", check=False)
    assert unsure.returncode != 0 and "--yes" in unsure.stderr
    db("drop", "books", "--yes")
    assert "books" not in db("stat").stdout


def test_an_index_finds_records_also_when_it_is_built_later(db, tmp_path):
    lines = [
        {"isbn": f"{number:04}", "author": ["Eco", "Lem", "Sand"][number % 3], "year": number % 50}
        for number in range(600)
    ]
    path = tmp_path / "books.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    db("create", "indexed", "--key", "isbn", "--index", "author")
    db("import", "indexed", path)

    def found(*arguments):
        told = db("scan", "indexed", *arguments).stdout.splitlines()
        return [line.split("\t")[0] for line in told]

    of_lem = [line["isbn"] for line in lines if line["author"] == "Lem"]
    assert found("--index", "author", "--is", "Lem") == of_lem
    assert found("--index", "author", "--is", "Lem", "--limit", "3") == of_lem[:3]
    missing = db("scan", "indexed", "--index", "year", check=False)
    assert missing.returncode != 0 and "no index" in missing.stderr
    told = db("index", "indexed", "year")
    assert "600 records" in told.stderr or told.stderr
    early = [line["isbn"] for year in range(3) for line in lines if line["year"] == year]
    numbers = ["--index", "year", "--kind", "number"]
    assert found(*numbers, "--until", "3") == early
    db("put", "indexed", "0001", '{"isbn": "0001", "author": "Eco", "year": 1}')
    assert found("--index", "author", "--is", "Lem") == of_lem[1:]
    listed = db("index", "indexed").stdout
    assert "author" in listed and "ready" in listed
    told = db("verify").stdout
    assert "600 entries, 0 outdated" in told
    db("index", "indexed", "author", "--drop")
    gone = db("scan", "indexed", "--index", "author", check=False)
    assert gone.returncode != 0 and "no index" in gone.stderr


def test_an_encrypted_collection_opens_for_those_with_its_key(db, tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"

    def as_(who, command, *arguments, **more):
        home = tmp_path / who
        home.mkdir(exist_ok=True)
        return fader("db", command, db.url, *arguments, home=home, **more)

    as_("own", "create", "secrets", "--encrypt", "--index", "word")
    identity = own / ".config/fader/identity"
    assert identity.stat().st_mode & 0o77 == 0
    as_("own", "put", "secrets", "xyzzy", '{"word": "plugh"}', "--level", "atomic")
    assert "plugh" in as_("own", "get", "secrets", "xyzzy").stdout
    for path in (tmp_path / "shop").rglob("*"):
        if path.is_file():
            assert not any(word in path.read_bytes() for word in (b"xyzzy", b"plugh")), path
    stranger = as_("other", "get", "secrets", "xyzzy", check=False)
    assert stranger.returncode != 0 and "encrypted" in stranger.stderr
    public = fader("db", "identity", home=other).stdout.strip()
    denied = as_("other", "get", "secrets", "xyzzy", check=False)
    assert denied.returncode != 0 and public in denied.stderr
    as_("own", "grant", "secrets", public)
    assert "plugh" in as_("other", "get", "secrets", "xyzzy").stdout
    as_("own", "rotate", "secrets", "--without", public, "--reseal")
    denied = as_("other", "get", "secrets", "xyzzy", check=False)
    assert denied.returncode != 0 and "not granted" in denied.stderr
    assert "plugh" in as_("own", "get", "secrets", "xyzzy").stdout
    assert "1 records" in as_("own", "verify").stdout
    identity.chmod(0o644)
    loose = as_("own", "get", "secrets", "xyzzy", check=False)
    assert loose.returncode != 0 and "chmod 600" in loose.stderr


def test_a_vacuum_deletes_what_nothing_leads_to(db, tmp_path):
    large = "x" * 100_000
    for _ in range(2):
        db("put", "books", "k", "-", text=large)
    values = tmp_path / "shop/db/values"
    assert len(list(values.iterdir())) == 2
    young = db("vacuum")
    assert "0 objects" in young.stdout and "1 objects are younger" in young.stdout
    done = db("vacuum", "--age", "0")
    assert "1 objects of 100000 bytes" in done.stdout
    assert len(list(values.iterdir())) == 1
    assert db("get", "books", "k").stdout == large + "\n"


def test_records_wait_for_approval(db):
    db("create", "wiki", "--curated")
    for key in "abc":
        db("put", "wiki", key, f"text of {key}")
    assert db("scan", "wiki").stdout == ""
    listed = db("approve", "wiki")
    assert "put\ta\ttext of a" in listed.stdout and "3 wait" in listed.stderr
    db("approve", "wiki", "a")
    db("approve", "wiki", "b", "--reject")
    assert db("scan", "wiki").stdout == "a\ttext of a\n"
    assert "1 records approved" in db("approve", "wiki", "--all").stderr
    assert db("scan", "wiki").stdout == "a\ttext of a\nc\ttext of c\n"


def test_clients_killed_at_any_moment_lose_nothing_acknowledged(db):
    """Rounds of kill -9 of random clients of one folder: what was acknowledged is there."""
    chance = random.Random(34)
    acknowledged, tried, running, number = set(), set(), [], 0
    for _ in range(12):
        while len(running) < 4:
            number += 1
            key = f"{number:05}"
            tried.add(key)
            level = chance.choice(["basic", "monotonic", "atomic"])
            command = [BINARY, "db", "put", db.url, "books", key, key, "--level", level]
            running.append((key, subprocess.Popen(command, stderr=subprocess.DEVNULL)))
        chance.shuffle(running)
        key, victim = running.pop()
        time.sleep(chance.random() / 4)
        victim.kill()
        if victim.wait(60) == 0:
            acknowledged.add(key)
        for key, client in running:
            if client.wait(120) == 0:
                acknowledged.add(key)
        running.clear()
        assert "books: " in db("verify").stdout

    def kept():
        db("checkpoint")
        return {line.split("\t")[0] for line in db("scan", "books").stdout.splitlines()}

    # A client that was killed hides what it had taken from a queue until its time is over.
    last = time.monotonic() + 120
    while not acknowledged <= (keys := kept()) and time.monotonic() < last:
        time.sleep(1)
    assert acknowledged <= keys <= tried
    assert len(acknowledged) >= 24


def test_a_damaged_page_is_named_and_stays(db, tmp_path):
    db("put", "books", "k", "v")
    (page,) = (path for path in (tmp_path / "shop/db/pages").iterdir() if path.is_file())
    whole = page.read_bytes()
    page.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused = db("get", "books", "k", check=False)
    assert refused.returncode != 0 and page.name in refused.stderr
    assert page.read_bytes() != whole


def pages(tmp_path):
    """The files of pages, the largest first."""
    found = [path for path in (tmp_path / "shop/db/pages").iterdir() if path.is_file()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def test_verify_and_stat_go_on_behind_what_they_cannot_read(db, tmp_path):
    db("import", "books", write_csv(tmp_path / "books.csv", rows(range(8_000))))
    damaged = pages(tmp_path)[1]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    db("create", "secrets", "--encrypt")
    db("create", "zoo")
    db("put", "zoo", "k", "v")
    stranger = {"home": tmp_path / "stranger", "check": False}
    for command, shown in [("verify", "zoo: 1 records in 1 pages"), ("stat", " zoo ")]:
        told = fader("db", command, db.url, **stranger)
        assert told.returncode == 1 and shown in told.stdout
        assert f"books: page {damaged.name}: " in told.stderr
        assert "the page is damaged: the checksum does not match" in told.stderr
        assert "secrets: it is encrypted" in told.stderr
    assert "damaged" in db("vacuum", "--age", "0", check=False).stderr
    damaged.unlink()
    for command in ("verify", "stat"):
        told = fader("db", command, db.url, **stranger)
        assert told.returncode == 1
        assert f"books: page {damaged.name}: is not there" in told.stderr
    db("drop", "books", "--yes")
    assert "books" not in db("stat").stdout


def test_a_vacuum_deletes_nothing_of_a_tree_with_a_gap(db, tmp_path):
    """VACUUM-4."""
    db("import", "books", write_csv(tmp_path / "books.csv", rows(range(8_000))))
    root = pages(tmp_path)[-1]
    whole, before = root.read_bytes(), len(pages(tmp_path))
    root.unlink()
    refused = db("vacuum", "--age", "0", check=False)
    assert refused.returncode == 1 and f"{root.name}: is not there" in refused.stderr
    assert len(pages(tmp_path)) == before - 1
    root.write_bytes(whole)
    db("vacuum", "--age", "0")
    assert exported(db) == rows(range(8_000))


def test_a_fresh_read_sees_what_no_page_has(db):
    db("put", "books", "k", "old")
    # A client that dies after its commit leaves the record in its queue.
    program = [BINARY, "db", "import", db.url, "books", "-", "--transactions", "--format", "json",
               "--key", "isbn", "--level", "atomic"]
    dying = subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for number in range(1_500):
        dying.stdin.write(json.dumps({"isbn": f"{number:04}"}) + "\n")
    dying.stdin.flush()
    for _ in range(600):
        if db("scan", "books", "--fresh").stdout.count("\n") >= 1_001:
            break
        time.sleep(0.1)
    dying.kill()
    dying.communicate()
    assert db("scan", "books", "--fresh").stdout.count("\n") >= 1_001
    assert db("get", "books", "0007", "--fresh").stdout == '{"isbn":"0007"}\n'


def test_the_cost_of_commands_is_kept_and_summed_up(db, tmp_path):
    path = write_csv(tmp_path / "books.csv", rows(range(500)))
    db("import", "books", path, "--keep-cost", "--transactions", AWS_ACCESS_KEY_ID="ALICE")
    db("put", "books", "k", "v", "--level", "atomic", "--keep-cost", AWS_ACCESS_KEY_ID="BOB")
    db("get", "books", "k", "--keep-cost", AWS_ACCESS_KEY_ID="BOB")
    db("scan", "books")
    by_stage = db("cost").stdout
    # Requests to queues in a bucket serve several stages: they are shared.
    for stage in ("read", "commit", "shared", "checkpoint", "cost"):
        assert "books" in by_stage and f" {stage} " in by_stage, by_stage
    by_key = db("cost", "--by", "key").stdout
    requests = {line.split()[0]: int(line.split()[1]) for line in by_key.splitlines()
                if line.split() and line.split()[0] in ("ALICE", "BOB", "all")}
    assert requests["all"] == requests["ALICE"] + requests["BOB"] > 10, by_key
    db("create", "other")
    db("put", "other", "k", "v", "--keep-cost", AWS_ACCESS_KEY_ID='B"OB')
    text = db("cost", "--metrics").stdout
    values = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in values, line
            values[name] = float(value)
    counted = {name: value for name, value in values.items()
               if name.startswith("fader_db_requests_total")}
    of_alice = [value for name, value in counted.items() if 'key="ALICE"' in name]
    assert sum(of_alice) == requests["ALICE"], text
    quoted = [name for name in counted if r'key="B\"OB"' in name]
    assert quoted and all('collection="other"' in name for name in quoted), text
    assert any(name.startswith('fader_db_dollars_total{collection="books",stage="checkpoint"')
               and value > 0 for name, value in values.items()), text
