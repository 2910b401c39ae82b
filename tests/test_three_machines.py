"""The three machines of docs/how-to/run-a-cluster.md: users, files, ZooKeeper, TLS, start, stop and
upgrade. Each machine has a network, an /etc and a /var/lib of its own."""

import collections
import re
import shutil
import subprocess
import sys

import pytest

import server as servers
from nemesis.__main__ import spaces, why_not
from processes import LAUNCHER

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def documented():
    """The files, and the commands: of each machine's ZooKeeper and member, and of the cluster."""
    text = (servers.ROOT / "docs/how-to/run-a-cluster.md").read_text()
    text = text[text.index("## Three machines with systemd"):text.index("## Chains\n")]
    blocks = collections.defaultdict(list)
    for language, block in BLOCK.findall(text):
        blocks[language].append(block)
    [zoo], [toml] = blocks["properties"], blocks["toml"]
    units = (unit.replace("\\\n", "") for unit in blocks["ini"])
    names = ["zoo.cfg", "fader.toml", "zookeeper.service", "fader.service"]
    files = dict(zip(names, [zoo, toml, *units], strict=True))
    commands = dict(zip(["zookeeper", "fader"], blocks["console"], strict=True))
    commands |= dict(zip(["init", "status"], blocks["sh"], strict=True))
    return files, commands


def test_the_units_are_such(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    files, _ = documented()
    for name, binary, here in [
        ("fader.service", "/usr/local/bin/fader", servers.BINARY),
        ("zookeeper.service", "/usr/bin/java", shutil.which("java")),
    ]:
        assert f"ExecStart={binary} " in files[name]
        path = tmp_path / name
        path.write_text(files[name].replace(binary, str(here)))
        verified = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True
        )
        told = [line for line in verified.stderr.splitlines() if name in line]
        assert told == [] and verified.returncode == 0, verified.stderr


def test_three_machines_do_what_is_documented(tmp_path):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    if shutil.which("setpriv") is None or shutil.which("useradd") is None:
        pytest.skip("setpriv or useradd is missing (Debian: util-linux, passwd)")
    # In its namespaces nothing can be fetched.
    subprocess.run([sys.executable, LAUNCHER, "--fetch"], check=True)
    run = subprocess.run(
        [*spaces(), sys.executable, "-m", "three_machines", tmp_path],
        cwd=servers.ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert "upgraded" in run.stdout
