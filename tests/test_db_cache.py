"""`fader db --cache`: pages in a folder of this machine, bounded, locked and validated."""

import fcntl
import json

import pytest

from server import fader


@pytest.fixture
def db(tmp_path):
    url = f"file://{tmp_path}/shop"

    def run(command, *arguments, **more):
        return fader("db", command, url, *map(str, arguments), home=tmp_path, **more)

    run("create", "books", "--key", "isbn")
    records = "".join(json.dumps({"isbn": f"{number:06}", "title": "x" * 200}) + "\n"
                      for number in range(5_000))
    run("import", "books", "-", "--format", "json", text=records)
    return run


def received(result):
    """Bytes of answers at stage `read`, and requests."""
    words = next(line.split() for line in result.stderr.splitlines()
                 if line.split()[:1] == ["read"])
    return int(words[3]), int(words[1])


def pages(folder):
    return sorted(folder.glob("*.fader-page"))


def test_a_later_command_reads_pages_without_their_bytes(db, tmp_path):
    folder = tmp_path / "cache"
    cold = db("scan", "books", "--cache", folder, "--cost")
    warm = db("scan", "books", "--cache", folder, "--cost")
    assert warm.stdout == cold.stdout and warm.stdout.count("\n") == 5_000
    (cold_bytes, cold_requests), (warm_bytes, warm_requests) = map(received, (cold, warm))
    assert cold_bytes > 1_000_000 and warm_bytes == 0, (cold.stderr, warm.stderr)
    assert warm_requests <= cold_requests
    assert folder.stat().st_mode & 0o77 == 0
    assert all(page.stat().st_mode & 0o77 == 0 for page in pages(folder))
    # Another client's write is seen.
    db("put", "books", "000007", "new")
    assert db("get", "books", "000007", "--cache", folder).stdout == "new\n"


def test_damaged_files_are_read_again(db, tmp_path):
    folder = tmp_path / "cache"
    whole = db("scan", "books", "--cache", folder).stdout
    for number, page in enumerate(pages(folder)):
        content = bytearray(page.read_bytes())
        content[len(content) // 2] ^= 1
        page.write_bytes(content if number % 2 else content[:100])
    damaged = db("scan", "books", "--cache", folder, "--cost")
    assert damaged.stdout == whole and received(damaged)[0] > 1_000_000
    assert received(db("scan", "books", "--cache", folder, "--cost"))[0] == 0


def test_the_folder_has_at_most_its_bytes(db, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    foreign = folder / "holiday.jpg"
    foreign.write_bytes(b"x" * 500_000)
    for size in (400_000, 100_000):
        db("scan", "books", "--cache", folder, "--cache-bytes", size)
        assert 0 < sum(page.stat().st_size for page in pages(folder)) <= size
    assert foreign.stat().st_size == 500_000


def test_a_folder_has_one_process_at_a_time(db, tmp_path):
    folder = tmp_path / "cache"
    db("get", "books", "000001", "--cache", folder)
    before = pages(folder)
    with (folder / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = db("scan", "books", "--cache", folder)
        assert other.stdout.count("\n") == 5_000 and "another process" in other.stderr
    assert pages(folder) == before
    db("scan", "books", "--cache", folder)
    assert len(pages(folder)) > len(before)


def test_pages_of_an_encrypted_collection_stay_sealed(db, tmp_path):
    folder = tmp_path / "cache"
    db("create", "secrets", "--encrypt")
    db("put", "secrets", "xyzzy", "plugh", "--cache", folder)
    assert db("get", "secrets", "xyzzy", "--cache", folder).stdout == "plugh\n"
    assert pages(folder)
    for page in pages(folder):
        assert b"xyzzy" not in page.read_bytes() and b"plugh" not in page.read_bytes()


def test_a_folder_that_cannot_be_one_is_refused(db, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    refused = db("get", "books", "000001", "--cache", file, check=False)
    assert refused.returncode != 0 and "--cache" in refused.stderr
    refused = db("get", "books", "000001", "--cache-bytes", "5", check=False)
    assert refused.returncode == 2 and "--cache" in refused.stderr
