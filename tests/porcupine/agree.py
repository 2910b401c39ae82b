"""Do `fader measure check --of search` and Porcupine say the same?

    python3 tests/porcupine/agree.py [--histories 10000] [--fader target/release/fader]

On random histories of registers with compare-and-set, with ties, unknown outcomes and lies. Also on
the logs of etcd by Jepsen in Porcupine's module, whose verdicts its tests have."""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "porcupine"
JUDGE = ROOT / "target" / "porcupine"
HEADER = {"fader_log": 1, "clock": "virtual", "order": "one-writer"}


def history(chance):
    """Up to thirty operations of four clients on two registers; one in twenty answers is a lie."""
    operations = []
    for number in range(chance.randint(1, 30)):
        called = chance.randint(0, 80)
        one = {"process": number, "called": called, "returned": called + chance.randint(0, 12)}
        kind = chance.choice(["read", "read", "write", "swap"])
        one |= {"action": kind, "key": chance.choice("xy")}
        if kind != "read":
            one["value"] = chance.randint(0, 4)
        if kind == "swap":
            one["from"] = chance.choice([None, 0, 1, 2, 3, 4])
        one["acts"] = chance.randint(called, one["returned"])
        operations.append(one)
    state = {}
    for one in sorted(operations, key=lambda one: one.pop("acts")):
        fate, before = chance.random(), state.get(one["key"])
        lies = chance.random() < 0.05
        if fate < 0.1:
            one["outcome"] = "unknown"
            if fate < 0.05 or one["action"] == "read":
                continue
        elif fate < 0.15:
            one |= {"outcome": "refused", "reason": "busy"}
            continue
        else:
            one["outcome"] = "done"
        is_met = one["action"] != "swap" or before == one["from"]
        if one["action"] == "read":
            one["shown"] = chance.randint(0, 5) if lies else before
        elif is_met:
            state[one["key"]] = one["value"]
        if one["action"] == "swap" and one["outcome"] == "done" and is_met == lies:
            one["outcome"] = "unmet"
    return operations


def check(fader, path):
    """The exit code of our check."""
    command = [*fader, "check", path, "--of", "search"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"{path}: {run.stdout}{run.stderr}")
    return run.returncode


def random_histories(fader, count, folder):
    """How many keys of so many histories there are of each verdict; ends at the first that is
    judged twice. All are one log, each with keys of its own."""
    lines = [HEADER]
    for number in range(count):
        for one in history(random.Random(number)):
            lines.append(one | {"key": f"{number}/{one['key']}"})
    path = folder / "histories.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = path.with_suffix(".porcupine")
    subprocess.run([*fader, "convert", path, other], check=True, stdout=subprocess.DEVNULL)
    judged = subprocess.run([JUDGE, "keys", other], check=True, capture_output=True, text=True)
    ours = subprocess.run([*fader, "check", path, "--of", "search", "--each-key"],
                          capture_output=True, text=True)
    if ours.returncode not in (0, 1):
        sys.exit(ours.stdout + ours.stderr)
    theirs, ours = (dict(line.rsplit(" ", 1) for line in run.stdout.splitlines())
                    for run in (judged, ours))
    verdicts = {"good": 0, "bad": 0}
    for key, verdict in theirs.items():
        if ours[key] != verdict:
            sys.exit(f"{key}: Porcupine says {verdict}, we say {ours[key]}")
        verdicts[verdict] += 1
    # A key whose operations were all refused is in our log alone.
    if any(verdict != "good" for key, verdict in ours.items() if key not in theirs):
        sys.exit("a key with nothing in it is called bad")
    return verdicts


def build():
    """Builds Porcupine's side."""
    subprocess.run(["go", "build", "-o", JUDGE, "."], cwd=SOURCES, check=True)


def etcd_logs(fader):
    """How many logs of etcd were judged."""
    name = "github.com/anishathalye/porcupine"
    command = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    module = subprocess.run(command, cwd=SOURCES, check=True, capture_output=True, text=True)
    folder = pathlib.Path(module.stdout.strip())
    tests = (folder / "porcupine_test.go").read_text()
    expected = dict(re.findall(r"checkJepsen\(t, (\d+), (true|false)\)", tests))
    for number, verdict in expected.items():
        path = folder / "test_data" / "jepsen" / f"etcd_{int(number):03}.log"
        ours = check(fader, path)
        if (ours == 0) != (verdict == "true"):
            sys.exit(f"{path}: Porcupine says {verdict}, we say {ours}")
    return len(expected)


def main():
    """Compares, and says how often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--fader", default=ROOT / "target" / "release" / "fader")
    options = parser.parse_args()
    build()
    fader = [options.fader, "measure"]
    with tempfile.TemporaryDirectory() as folder:
        verdicts = random_histories(fader, options.histories, pathlib.Path(folder))
    if min(verdicts.values()) < options.histories // 20:
        sys.exit(f"the histories are too much alike: {verdicts}")
    good, bad = verdicts["good"], verdicts["bad"]
    print(f"keys of random histories: {good} good, {bad} bad, judged alike")
    print(f"logs of etcd: {etcd_logs(fader)}, judged alike")


if __name__ == "__main__":
    main()
