"""Parquet of Arrow as input of jobs and of the database, and the database's export in Arrow."""

import collections
import datetime
import decimal
import json
import subprocess

import pyarrow
import pyarrow.parquet
import pytest

from server import BINARY, environment, fader


@pytest.fixture
def run(tmp_path):
    def call(*words, **more):
        return fader(*map(str, words), home=tmp_path, **more)

    return call


def rows(count):
    return [{"isbn": f"{n:05}", "title": f"the {n % 7} books", "copies": n} for n in range(count)]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_a_job_reads_row_groups(run, tmp_path, compression):
    table = pyarrow.Table.from_pylist(rows(5_000))
    (tmp_path / "in").mkdir()
    pyarrow.parquet.write_table(table, tmp_path / "in/books.parquet", row_group_size=300,
                                compression=compression, write_page_checksum=True)
    run("mapreduce", "run", "word-count", "--format", "parquet", "--fields", "title", "--input",
        tmp_path / "in", "--output", tmp_path / "out", "--split", "16KiB", "--reduces", 2)
    found = {}
    for part in (tmp_path / "out").glob("part-*"):
        found.update(line.split("\t") for line in part.read_text().splitlines())
    words = collections.Counter(word for row in rows(5_000) for word in row["title"].split())
    assert found == {word: str(count) for word, count in words.items()}
    success = json.loads((tmp_path / "out/_SUCCESS").read_text())
    assert success["counters"]["map input records"] == 5_000
    assert sum(lap["task"].startswith("m") for lap in success["timeline"]) > 1


def test_a_job_names_the_damaged_row_group(run, tmp_path):
    table = pyarrow.Table.from_pylist(rows(2_000))
    path = tmp_path / "books.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=500, write_page_checksum=True)
    group = pyarrow.parquet.ParquetFile(path).metadata.row_group(2)
    start = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start + 60:start + 90] = bytes(30)
    path.write_bytes(damaged)
    refused = run("mapreduce", "run", "word-count", "--format", "parquet", "--input", path,
                  "--output", tmp_path / "out", check=False)
    assert refused.returncode != 0
    assert "books.parquet: row group 2:" in refused.stderr, refused.stderr
    assert not list((tmp_path / "out").glob("part-*"))


def test_values_of_any_type_become_records(run, tmp_path):
    table = pyarrow.table({
        "key": pyarrow.array(["a", "b"]),
        "yes": pyarrow.array([True, None]),
        "half": pyarrow.array([0.5, None], pyarrow.float32()),
        "tenth": pyarrow.array([0.1, None], pyarrow.float32()),
        "large": pyarrow.array([2**64 - 1, 0], pyarrow.uint64()),
        "price": pyarrow.array([decimal.Decimal("12.50"), None], pyarrow.decimal128(9, 2)),
        "day": pyarrow.array([datetime.date(2026, 2, 3), None]),
        "list": pyarrow.array([[1, 2], []], pyarrow.list_(pyarrow.int32())),
        "nested": pyarrow.array([{"x": 1, "y": "z"}, None]),
    })
    pyarrow.parquet.write_table(table, tmp_path / "all.parquet")
    at = tmp_path / "shop"
    run("db", "create", at.as_uri(), "things", "--key", "key")
    run("db", "import", at.as_uri(), "things", tmp_path / "all.parquet")
    lines = run("db", "export", at.as_uri(), "things").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"key": "a", "yes": True, "half": 0.5, "tenth": 0.1, "large": 2**64 - 1, "price": "12.50",
         "day": "2026-02-03", "list": [1, 2], "nested": {"x": 1, "y": "z"}},
        {"key": "b", "large": 0, "list": []},
    ]


def test_an_export_is_read_by_arrow_and_imported_again(run, tmp_path):
    at, again = tmp_path / "shop", tmp_path / "again"
    (tmp_path / "books.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(3_000)))
    for place, name in [(at, "books.jsonl"), (again, "books.parquet")]:
        run("db", "create", place.as_uri(), "books", "--key", "isbn")
        run("db", "import", place.as_uri(), "books", tmp_path / name)
        with open(tmp_path / "books.parquet", "wb") as out:
            export = ["db", "export", place.as_uri(), "books", "--format", "parquet"]
            out.write(exported(tmp_path, export))
        assert pyarrow.parquet.read_table(tmp_path / "books.parquet").to_pylist() == rows(3_000)


def exported(home, words):
    """What a command writes on its standard output, as bytes."""
    told = subprocess.run([BINARY, *words], env=environment(home), capture_output=True, check=True)
    return told.stdout


def test_a_damaged_file_is_refused_with_its_rows(run, tmp_path):
    table = pyarrow.Table.from_pylist(rows(1_000))
    path = tmp_path / "books.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=250, write_page_checksum=True)
    group = pyarrow.parquet.ParquetFile(path).metadata.row_group(1)
    start = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start + 60:start + 90] = bytes(30)
    path.write_bytes(damaged)
    at = (tmp_path / "shop").as_uri()
    run("db", "create", at, "books", "--key", "isbn")
    refused = run("db", "import", at, "books", path, check=False)
    assert refused.returncode != 0 and "row group 1:" in refused.stderr, refused.stderr
    counted = run("db", "import", at, "books", path, "--skip-bad", check=False)
    assert "lines 251 to 500: row group 1:" in counted.stderr, counted.stderr
    assert "750 lines are committed, 250 bad ones left out" in counted.stderr, counted.stderr
    path.write_bytes(b"no Parquet at all")
    refused = run("db", "import", at, "books", path, check=False)
    assert "it is no Parquet" in refused.stderr, refused.stderr
