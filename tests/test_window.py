"""`fader measure window`, and the same phases by an AWS SDK, at a server of limited capacity."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest

import server as servers

pytestmark = pytest.mark.alone

HERE = pathlib.Path(__file__).resolve().parent
ITEMS = 300
FOUND = [300, 209, 297]
# Less than the threads can do, and less than a window finds at once.
LIMIT = "gets=400/s+20,puts=250/s+20,latency=20ms"


@pytest.fixture
def limited(tmp_path):
    with servers.Server(tmp_path, "--limit", LIMIT) as server:
        yield server


def measure(server, folder, *flags, check=True):
    return servers.fader(
        "measure", "window", *flags, home=folder, check=check, **servers.signing(server.url)
    )


def counted(server):
    """What the server says that it refused, by class."""
    with urllib.request.urlopen(f"{server.url}/metrics") as page:
        text = page.read().decode()
    pattern = r'fader_limit_requests_total\{class="(\w+)",outcome="(\w+)"\} (\d+)'
    return {(kind, outcome): int(count) for kind, outcome, count in re.findall(pattern, text)}


def check_counts(recording, server):
    """Every request is accounted for, and the server tells the same of refusals."""
    phases = recording["phases"]
    assert [phase["unexpected"] for phase in phases] == [0] * 5
    ended = [phase["answered"] + phase["given_up"] for phase in phases]
    assert (ended[0], ended[4]) == (ITEMS, ITEMS)
    for phase, found in zip(ended[1:4], FOUND, strict=True):
        # One or two pages for the names, a third for an end that falls on a page's.
        assert found < phase <= found + 3
    count = counted(server)
    refused = [phase["refused"] for phase in phases]
    assert count["gets", "refused"] == sum(refused[1:4])
    # Of puts, the domain's deletion may have been refused besides.
    assert 0 <= count["puts", "refused"] - (refused[0] + refused[4]) <= 20


@pytest.mark.drawn
@pytest.mark.parametrize("client", ["window", "seed", "threads"])
def test_the_five_phases(limited, tmp_path, client):
    log, plot = tmp_path / "log.json", tmp_path / "plot.svg"
    files = ["--log", log, "--plot", plot]
    # Threads give up what was refused five times: that is what is wrong with them.
    is_sure = client != "threads"
    flags = ["--items", str(ITEMS), "--client", client, *files]
    done = measure(limited, tmp_path, *flags, check=is_sure)
    assert log.exists(), done.stderr
    recording = json.loads(log.read_text())
    if is_sure:
        check_counts(recording, limited)
        assert sum(phase["given_up"] for phase in recording["phases"]) == 0
    assert sum(recording["served"]) <= sum(phase["answered"] for phase in recording["phases"])
    assert 0 < max(recording["connections"])
    assert "query both, get both" in done.stdout and "110 s, 50-100 a second" in done.stdout
    drawn = plot.read_text()
    assert drawn.count("<polyline") == 2 and "#009e73" in drawn and "#d5301e" in drawn
    assert limited.client().list_domains().get("DomainNames", []) == []
    # What is shown of a log is what was shown of the run.
    shown = measure(limited, tmp_path, "--show", log, check=is_sure)
    assert (shown.stdout, shown.returncode) == (done.stdout, done.returncode)


def test_several_addresses_are_used_in_turn(tmp_path):
    with servers.Server(tmp_path, "--limit", "gets=100000/s", listen="0.0.0.0:0") as server:
        addresses = [f"http://127.0.0.{host}:{server.port}" for host in (1, 2, 3)]
        server.url = addresses[0]
        log = tmp_path / "log.json"
        also = ["--also", addresses[1], "--also", addresses[2]]
        measure(server, tmp_path, "--items", str(ITEMS), "--log", log, *also)
        recording = json.loads(log.read_text())
        assert recording["addresses"] == 3
        check_counts(recording, server)
        # One that is not there shows that it is used.
        nobody = "http://127.0.0.1:9"
        done = measure(server, tmp_path, "--items", "3", "--also", nobody, check=False)
        assert done.returncode == 1


def test_a_service_that_forgets_is_found_out(limited, tmp_path):
    """A log in which an answer was wrong is not passed over."""
    log = tmp_path / "log.json"
    measure(limited, tmp_path, "--items", "10", "--log", log)
    recording = json.loads(log.read_text())
    recording["phases"][2]["unexpected"] = 1
    log.write_text(json.dumps(recording))
    done = measure(limited, tmp_path, "--show", log, check=False)
    assert done.returncode == 1 and "some answers were wrong" in done.stderr


@pytest.mark.drawn
@pytest.mark.parametrize("mode", ["standard", "adaptive"])
def test_the_same_by_boto3(limited, tmp_path, mode):
    log = tmp_path / "log.json"
    command = [sys.executable, HERE / "sdk_phases.py", limited.url, mode, log]
    environment = servers.environment(tmp_path, **servers.signing(limited.url))
    subprocess.run([*command, "--items", str(ITEMS)], env=environment, check=True, timeout=300)
    recording = json.loads(log.read_text())
    # What standard mode gives up is not there to be found, and not wrong by itself.
    given_up = sum(phase["given_up"] for phase in recording["phases"])
    if given_up == 0:
        check_counts(recording, limited)
    assert sum(phase["refused"] for phase in recording["phases"]) > 0
    shown = measure(limited, tmp_path, "--show", log, check=False)
    assert f"{mode}, 34 threads, 300 items, 1 address" in shown.stdout
    assert (shown.returncode == 0) == (given_up == 0)
