"""`fader db`: a database in a folder, written by several programs at once."""

import csv
import json
import subprocess

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
    assert refused.returncode != 0 and "line 2" in refused.stderr
    counted = db("import", "books", path, "--skip-bad", check=False)
    assert counted.returncode == 1
    assert "2 lines are committed, 2 bad ones" in counted.stderr
    assert [record["isbn"] for record in exported(db)] == ["1", 2]


def test_what_cannot_be_done_is_refused_in_words(db, tmp_path):
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


def test_a_damaged_page_is_named_and_stays(db, tmp_path):
    db("put", "books", "k", "v")
    (page,) = (path for path in (tmp_path / "shop/db/pages").iterdir() if path.is_file())
    whole = page.read_bytes()
    page.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused = db("get", "books", "k", check=False)
    assert refused.returncode != 0 and page.name in refused.stderr
    assert page.read_bytes() != whole
