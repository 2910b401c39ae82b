"""The change of docs/how-to/add-a-mutant.md, applied to a copy of the sources."""

import os
import re
import shutil
import subprocess

import pytest

from server import ROOT
from test_documents import blocks, shell

DOCUMENT = "docs/how-to/add-a-mutant.md"


def forms_of(text):
    """Its lines without numbers: which seeds catch a mutant changes with the world."""
    return {re.sub(r"seed \d+|\d+\.\d+", "N", line) for line in text.splitlines()}


def copied(change):
    """The sources with a change applied: where they were the last time, and each file as old as
    what it is made of. So cargo builds again what is new since."""
    copy = ROOT / "target/how-to/sources"
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns("target", ".git", ".venv", "__pycache__", "node_modules")
    shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
    # Not as a part of the repository around it.
    alone = os.environ | {"GIT_CEILING_DIRECTORIES": str(copy.parent)}
    applied = subprocess.run(["git", "apply", "-"], cwd=copy, input=change, text=True,
                             env=alone, capture_output=True)
    assert applied.returncode == 0, applied.stderr
    for path in re.findall(r"^\+\+\+ b/(.+)$", change, re.MULTILINE):
        assert (copy / path).read_bytes() != (ROOT / path).read_bytes(), path
        age = max((ROOT / source).stat().st_mtime for source in [path, DOCUMENT])
        os.utime(copy / path, (age, age))
    return copy


@pytest.mark.drawn(3)
def test_the_mutant_of_the_how_to_is_caught():
    [change] = blocks(DOCUMENT, "diff")
    copy = copied(change)
    search, script = blocks(DOCUMENT, "sh")
    [found] = blocks(DOCUMENT, "text")
    # Cargo keeps builds of other features and other folders apart, and shares dependencies whose
    # features are equal. So each command builds with the packages whose dependencies the tests of
    # the workspace have, and only our own crates.
    target = ROOT / "target"
    # What cargo told of xtask would make build scripts run again.
    of_xtask = ("CARGO_PKG_", "CARGO_MANIFEST_")
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(of_xtask)}
    environment |= {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }
    simulator = "--package fader-simulator"
    all_of_tests = "--workspace --exclude xtask --test sweeps --bin fader-simulate"
    assert simulator in search
    search = search.replace(simulator, all_of_tests)
    script = script.replace("--package", "--package fader-fader --package")
    search = search.replace("target/debug", f"{target}/debug")
    # The document's first seed is the entry's: most worlds need no other.
    assert "--seeds 40" in search
    told = shell(search.replace("--seeds 40", "--seeds 1"), copy, environment)
    if not forms_of(told) & forms_of(found):
        told = shell(search, copy, environment)
    assert forms_of(told) & forms_of(found), told
    assert "test result: ok. 1 passed" in shell(script, copy, environment)
    unknown = [f"{target}/debug/fader-simulate", "--without", "NoSuchGuard", "--seeds", "1"]
    refused = subprocess.run(unknown, capture_output=True, text=True)
    assert refused.returncode == 1 and "no mutant removes NoSuchGuard" in refused.stderr
