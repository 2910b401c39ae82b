"""The command line of tests that kill processes in rounds (kill -9) and judge what is left."""

import argparse
import pathlib
import tempfile


class Violation(Exception):
    """What must not be."""


def main(name, about, rounds, crash):
    """`crash(rounds, seed, folder)` in a folder that goes; the exit code."""
    parser = argparse.ArgumentParser(prog=name, description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds, help="how often is killed")
    parser.add_argument("--seed", type=int, default=1, help="where the moments come from")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        try:
            crash(chosen.rounds, chosen.seed, pathlib.Path(folder))
        except Violation as violation:
            print(f"violation: {violation}")
            return 1
    return 0
