"""The change of docs/how-to/add-a-mutant.md, applied to a copy of the sources."""

import os
import re
import shutil
import subprocess

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


def test_the_mutant_of_the_how_to_is_caught():
    [change] = blocks(DOCUMENT, "diff")
    copy = copied(change)
    search, script = blocks(DOCUMENT, "sh")
    [found] = blocks(DOCUMENT, "text")
    # A target folder of its own: the feature reaches no other build.
    target = ROOT / "target/how-to"
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }
    # Optimised dependencies take minutes, and the runs seconds.
    settings = copy / ".cargo/config.toml"
    settings.parent.mkdir(exist_ok=True)
    with settings.open("a") as file:
        file.write('[profile.dev.package."*"]\nopt-level = 0\n')
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
