"""What a level costs in one-way delays between members, against what it must cost (semantics.md,
section 1). A strong write costs four along a chain and two in a star; eventual writes and reads
with W = R = 2 cost two. Measured by `fader measure consistency`."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import server as servers

# Delays, by wiring and kind.
LEAST = {
    "chain": {"strong-write": 4, "eventual-write": 2, "eventual-read": 2},
    "star": {"strong-write": 2, "eventual-write": 2, "eventual-read": 2},
}
UNLOADED, LOADED = 1.05, 1.25
# A member that a busy machine holds up is left out, and refuses what it had not yet done.
FAILED = 0.001
# Of what is asked while the head is partitioned for six seconds, so much is answered. Strong
# operations are again after lease + 1 s, eventual ones that ask for one member always.
ANSWERED = {
    "strong read": 0.5, "strong write": 0.5, "eventual read, R = 1": 0.99,
    "eventual write, W = 1": 0.99, "eventual write, sloppy": 0.99,
}
# The share of writes that counts as unloaded, and the one that counts as loaded.
FEW_WRITES, MANY_WRITES = 0.25, 0.75


def run(options, report):
    for wiring in LEAST:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            judge(wiring, measure(wiring, folder, options), report)
            if options.keep:
                kept = options.keep / wiring
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                print(f"figures and numbers: {kept}")


def measure(wiring, folder, options):
    words = ["measure", "consistency", "--wiring", wiring, "--out", folder]
    words += ["--quick"] if options.small else ["--runs", str(options.runs)]
    subprocess.run(
        [servers.BINARY, *words], check=True, env=servers.environment(folder),
        stdin=subprocess.DEVNULL,
    )
    return json.loads((pathlib.Path(folder) / "consistency.json").read_text())


def judge(wiring, measured, report):
    tally = measured["tally"]
    failed = sum(tally["failed"].values()) / tally["asked"]
    report.at_most(f"{wiring}: refused or unanswered", [failed], FAILED, "of all")
    for point in measured["latency"]:
        delay, kind, writes = point["delay_ms"], point["kind"], point["writes"]
        least = LEAST[wiring].get(kind)
        allowed = {FEW_WRITES: UNLOADED, MANY_WRITES: LOADED}.get(writes)
        if delay == 0 or least is None or allowed is None:
            continue
        name = f"{wiring}, {delay} ms, {writes:.0%} writes: {kind}"
        delays = [median / delay for median in point["medians_ms"]]
        report.at_most(name, delays, allowed * least, "delays")
    for level in measured["availability"]:
        name = f"{wiring}, head cut off: {level['name']}"
        if level["name"] in ANSWERED:
            report.at_least(name, level["during"], ANSWERED[level["name"]], "of all")
    if wiring == "star":
        # There a strong write takes two delays too, and a read of two members more than a clean
        # strong one: nothing falls by arithmetic.
        return
    steps = [f"{point['eventual']:.0%} eventual" for point in measured["mixed"]]
    of = lambda load: [point[load]["all_ms"] for point in measured["mixed"]]
    throughput = [point["writes_per_s"] for point in measured["mixed"]]
    # Of few requests a strong write and a clean strong read take four delays together, and eventual
    # ones too. The mean falls by what strong reads wait for writes, a few ms, and is only shown.
    for step, values in zip(steps, of("few")):
        report.series(f"{wiring}: mean latency, few requests, {step}", values, "ms")
    report.falls(f"{wiring}: mean latency", steps, of("many"), "ms")
    report.rises(f"{wiring}: write throughput", steps, throughput, "1/s")
