"""The commands of the how-tos, run in order, each document in a folder of its own."""

import subprocess

import pytest

import server as servers
from server import ROOT
from test_documents import blocks

HOW_TOS = sorted((ROOT / "docs/how-to").glob("*.md"))

# What each document prints with its commands, and what makes a long one short.
RUN = {
    "clouds": (["18 promises, 0 excused"], []),
    "database": (["Vonnegut"], []),
    "mapreduce": (["be\t2", "to\t2"], []),
    "measure-load": (
        ["registers"],
        [
            ("--for 60s", "--for 2s"),
            ("threads --out", "threads --requests 1000 --out"),
            ("measure overload", "measure overload --for 1s"),
        ],
    ),
}
# Documents whose commands need more than a folder, and their tests.
ELSEWHERE = {
    "add-a-mutant": "tests/test_add_a_mutant.py",
    "choose-consistency": "tests/test_documents.py",
    "run-a-cluster": "tests/test_three_machines.py",
}


def run(code, folder):
    environment = servers.environment(folder)
    environment["PATH"] = f"{servers.BINARY.parent}:{environment['PATH']}"
    return subprocess.run(["sh", "-ec", code], cwd=folder, env=environment, capture_output=True,
                          text=True, timeout=600)


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_how_to_do_what_it_says(name, tmp_path):
    printed, shorter = RUN[name]
    code = "".join(blocks(f"docs/how-to/{name}.md", "sh"))
    for long, short in shorter:
        assert long in code
        code = code.replace(long, short)
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in printed:
        assert text in done.stdout, done.stdout + done.stderr


def test_each_how_to_with_commands_is_run():
    with_commands = {path.stem for path in HOW_TOS if blocks(path.relative_to(ROOT), "sh")}
    assert with_commands == RUN.keys() | ELSEWHERE.keys()
    for test in ELSEWHERE.values():
        assert (ROOT / test).exists()
