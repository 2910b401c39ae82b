"""A data folder that is damaged: it is told at the start with its file, mended from the log, or
refused. A server that says that it listens goes on."""

import pathlib
import shutil
import urllib.request

import pytest

from damage import flip
from sdb_calls import get, put, select
from server import Server, fader

ITEMS = 60


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder that a server has left in order, with items in the engine and in the log."""
    folder = tmp_path_factory.mktemp("written")
    with Server(folder) as server:
        sdb = server.client()
        sdb.create_domain(DomainName="domain")
        for number in range(ITEMS):
            put(sdb, "domain", f"item-{number:02}", n=str(number), text="x" * 200)
        assert server.stop() == 0, server.log()
    return folder / "data"


@pytest.fixture
def data(written, tmp_path):
    shutil.copytree(written, tmp_path / "data", ignore=shutil.ignore_patterns("*.sock"))
    return tmp_path / "data"


def is_whole(server):
    """Whether all is there, and can be written and deleted."""
    sdb = server.client()
    found = select(sdb, "select * from domain limit 2500")
    assert {item: values["n"] for item, values in found.items()} == {
        f"item-{number:02}": [str(number)] for number in range(ITEMS)
    }
    assert len(select(sdb, "select * from domain where n = '7'")) == 1
    for number in range(ITEMS):
        put(sdb, "domain", f"item-{number:02}", replace=True, n=str(number))
    sdb.create_domain(DomainName="another")
    sdb.delete_domain(DomainName="another")
    assert sdb.domain_metadata(DomainName="domain")["ItemCount"] == ITEMS
    assert server.stop() == 0, server.log()


def refused(folder, *words):
    """The start ends with these words, and says nothing of listening."""
    with pytest.raises(RuntimeError) as caught:
        Server(folder)
    told = str(caught.value)
    for word in words:
        assert word in told, told
    return told


def checked(data, *verb):
    return fader(*(verb or ["check"]), "--data", data, home=data.parent, check=False)


def table(data, tree):
    return max((data / "engine" / tree / "tables").glob("*"))


@pytest.mark.parametrize("tree", ["registers", "counters", "index"])
def test_a_block_that_rotted_is_made_anew_from_the_log(data, tree):
    rotten = table(data, tree)
    flip(rotten, 40)
    found = checked(data)
    assert found.returncode == 1
    assert f"{rotten}: the block at offset 0 is damaged" in found.stderr
    with Server(data.parent) as server:
        is_whole(server)
        assert f"{rotten}: the block at offset 0 is damaged" in server.log()
    assert (data / "engine.damaged-1").is_dir()
    assert checked(data).returncode == 0


@pytest.mark.parametrize(
    "gone",
    ["", "/registers", "/counters", "/index/current", "/registers/tables"],
)
def test_deleted_files_of_the_engine_are_rebuilt(data, gone):
    path = data / f"engine{gone}"
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with Server(data.parent) as server:
        is_whole(server)


def test_repair_does_what_a_start_does(data):
    flip(table(data, "registers"), 40)
    mended = checked(data, "repair")
    assert mended.returncode == 0, mended.stderr
    assert "made anew from the log" in mended.stdout
    with Server(data.parent) as server:
        is_whole(server)


@pytest.mark.parametrize("kind", ["flipped", "foreign"])
def test_another_sealing_key_is_refused(data, kind):
    key = data / "seal.key"
    flip(key, 5) if kind == "flipped" else key.write_bytes(bytes(range(32)))
    refused(data.parent, "seal.key", "Restore it")


@pytest.mark.parametrize("size", [None, 0, 64])
def test_a_log_that_was_cut_is_no_first_start(data, size):
    shutil.rmtree(data / "engine")
    [segment] = (data / "log").glob("*.log")
    if size is None:
        segment.unlink()
    else:
        with open(segment, "r+b") as file:
            file.truncate(size)
    refused(data.parent, "acknowledged", "Restore the data folder from a copy")


def killed(folder):
    """A folder whose server was killed in the midst of writes, and where its log ends."""
    with Server(folder) as server:
        sdb = server.client()
        sdb.create_domain(DomainName="domain")
        for number in range(ITEMS):
            put(sdb, "domain", f"item-{number:02}", n=str(number), text="x" * 200)
        server.kill()
    [segment] = (folder / "data/log").glob("*.log")
    return segment, len(segment.read_bytes().rstrip(b"\0"))


def zero_from(path, offset):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(offset)
        file.truncate(size)


def test_a_tail_of_zeros_is_no_unfinished_write(tmp_path):
    segment, end = killed(tmp_path)
    zero_from(segment, end * 2 // 3)
    told = refused(tmp_path, str(segment), "was acknowledged")
    assert "nothing acknowledged" not in told
    data = tmp_path / "data"
    assert "was acknowledged" in checked(data).stderr
    # The advice is true: without more it changes nothing, with it the server goes on with the rest.
    assert "--accept-loss" in checked(data, "repair").stderr
    refused(tmp_path, "was acknowledged")
    mended = checked(data, "repair", "--accept-loss")
    assert mended.returncode == 0, mended.stderr
    assert "later writes are lost" in mended.stdout
    with Server(tmp_path) as server:
        found = select(server.client(), "select * from domain limit 2500")
        assert 0 < len(found) < ITEMS
        put(server.client(), "domain", "new", n="1")
        assert server.stop() == 0


def test_a_tail_of_zeros_of_which_nothing_is_known_is_a_possible_loss(tmp_path):
    segment, end = killed(tmp_path)
    (tmp_path / "data/acknowledged").unlink()
    zero_from(segment, end - 100)
    found = checked(tmp_path / "data")
    assert found.returncode == 1 and "zeros up to offset" in found.stderr
    with Server(tmp_path) as server:
        assert "acknowledged writes are lost" in server.log()
        assert "nothing acknowledged" not in server.log()
        page = urllib.request.urlopen(server.url + "/metrics").read().decode()
        [line] = [x for x in page.splitlines() if x.startswith("fader_log_possibly_lost_bytes")]
        assert 0 < int(line.split()[1])


def test_the_folder_is_locked_and_not_a_file_in_it(data):
    with Server(data.parent) as server:
        (data / "lock").unlink()
        with pytest.raises(RuntimeError) as caught:
            Server(data.parent, listen="127.0.0.1:0")
        assert "holds its lock" in str(caught.value)
        assert get(server.client(), "domain", "item-01")["n"] == ["1"]


def test_a_folder_that_is_whole_is_said_to_be(data):
    assert "is whole" in checked(data).stdout
    assert "nothing" not in checked(data, "repair").stderr
    missing = checked(pathlib.Path(data.parent / "none"))
    assert missing.returncode == 1 and "there is no folder" in missing.stderr
