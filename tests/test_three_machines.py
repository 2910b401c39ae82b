"""What docs/operating.md says of three machines, done: users, files, TLS to ZooKeeper, start, stop
and upgrade, each machine with a network, an /etc and a /var/lib of its own."""

import re
import shutil
import subprocess
import sys

import pytest

import server as servers
from nemesis.__main__ import spaces, why_not

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def documented():
    """The commands, the configuration and the unit."""
    text = (servers.ROOT / "docs/operating.md").read_text()
    text = text[text.index("## Three machines with systemd"):]
    blocks = dict(reversed(BLOCK.findall(text)))
    return blocks["console"], blocks["toml"], blocks["ini"]


def test_the_unit_is_one(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    _, _, unit = documented()
    assert "ExecStart=/usr/local/bin/fader serve --config /etc/fader/fader.toml\n" in unit
    path = tmp_path / "fader.service"
    path.write_text(unit.replace("/usr/local/bin/fader", str(servers.BINARY)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True
    )
    told = [line for line in verified.stderr.splitlines() if "fader.service" in line]
    assert told == [] and verified.returncode == 0, verified.stderr


def test_three_machines_do_what_is_documented(tmp_path):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    if shutil.which("setpriv") is None or shutil.which("useradd") is None:
        pytest.skip("setpriv or useradd is missing (Debian: util-linux, passwd)")
    run = subprocess.run(
        [*spaces(), sys.executable, "-m", "three_machines", tmp_path],
        cwd=servers.ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert "upgraded" in run.stdout
