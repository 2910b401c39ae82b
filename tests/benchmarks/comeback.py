"""A member returns with an empty disk while load goes on, and what that costs the load.

Three rates are told, of the same clients at the same other members. They are of the whole chain
before the member is killed, of those that are left, and from its start until it serves. What the
whole chain costs more than the rest of it is no cost of the return; what is lost against the whole
chain is."""

import shutil
import time

from benchmarks import faulted

LOSS_MAX = 0.3
RETURN_SECONDS_MAX = 600
PHASE_SECONDS = 10
PHASE_SECONDS_SMALL = 2
# For some seconds after a return the engine still merges what it was filled with.
SETTLING_SECONDS = 20


def once(cluster, away, rate, is_small, share=lambda _: None):
    """Rates of the whole chain, of it without `away`, and until that serves again with an empty
    disk; and how long that took. `rate(seconds)` drives the load."""
    phase = PHASE_SECONDS_SMALL if is_small else PHASE_SECONDS
    if not is_small:
        rate(SETTLING_SECONDS)
    whole = rate(phase)
    cluster.kill(away)
    cluster.await_roles(lambda roles: roles[away] == "out")
    shutil.rmtree(cluster.members[away].data)
    rest = rate(phase)
    start = time.monotonic()
    cluster.members[away] = cluster.new_member(away, wait=False)
    share(cluster)
    waiting = faulted.beside(cluster.members[away].await_listening, RETURN_SECONDS_MAX)
    rates = []
    while not waiting.done() or not rates:
        rates.append(rate(1))
    waiting.result()
    seconds = time.monotonic() - start
    cluster.await_whole()
    return whole, rest, sum(rates) / len(rates), seconds


def tell(report, what, lacking, found):
    """What all returns came to."""
    whole, rest, during, times = zip(*found, strict=True)
    lost = lambda rates, of: [1 - rate / full for rate, full in zip(rates, of, strict=True)]
    report.series(f"{what} a second, the whole chain", whole, "/s")
    report.series("two members alone", rest, "/s")
    report.series("while the third returns", during, "/s")
    report.series(f"return with {lacking} to catch up: time", times, "s")
    report.series("cost of being three, against two", lost(whole, rest), "")
    report.series("return: loss against the two alone", lost(during, rest), "")
    report.at_most("return: loss against the whole chain", lost(during, whole), LOSS_MAX, "")
