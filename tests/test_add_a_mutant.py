"""The change of docs/how-to/add-a-mutant.md, applied to a copy of the sources."""

import os
import shutil
import subprocess

from server import ROOT
from test_documents import blocks

DOCUMENT = "docs/how-to/add-a-mutant.md"


def test_the_mutant_of_the_how_to_is_caught(tmp_path):
    copy = tmp_path / "fader"
    left_out = shutil.ignore_patterns("target", ".git", ".venv", "__pycache__", "node_modules")
    shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
    [change] = blocks(DOCUMENT, "diff")
    [command] = blocks(DOCUMENT, "sh")
    applied = subprocess.run(["git", "apply", "-"], cwd=copy, input=change, text=True,
                             capture_output=True)
    assert applied.returncode == 0, applied.stderr
    # A target folder of its own: the feature reaches no other build.
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(ROOT / "target/how-to"),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }
    run = subprocess.run(["sh", "-ec", command], cwd=copy, env=environment, capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test result: ok. 1 passed" in run.stdout, run.stdout
