"""CRAQ's scaling: strong reads at every member against strong reads at the tail alone, each member
with the same small share of a processor. CRAQ published 2.91, 4.84 and 6.76 for chains of three,
five and seven; a repetition measured 2.85."""

from benchmarks import cluster as clusters

PROMISED = {3: 2.85, 5: 4.7, 7: 6.4}
SHARE = 0.1
CONNECTIONS_EACH = 8
ITEMS = 200
TURN_SECONDS = 2
TURNS = 6
TURNS_SMALL = 1


def tail_of(cluster):
    """The member whose answer commits: the last of the chain."""
    _, roles = cluster.roles()
    return [name for name, role in roles.items() if role == "serving"][-1]


def gets(addresses, seconds):
    """Gets a second, by as many connections for each address."""
    load = {"items": ITEMS, "connections": CONNECTIONS_EACH * len(addresses)}
    return clusters.drive("get", addresses, seconds=seconds, **load)["rate"]


def one_run(sides, turns):
    """Gets a second of each side. They take short turns: what else goes on at the machine takes
    half of its speed now and then, for seconds, and so concerns both."""
    rates = dict.fromkeys(sides, 0)
    for turn in range(turns):
        for side in sorted(sides, reverse=turn % 2 == 0):
            rates[side] += gets(sides[side], TURN_SECONDS) / turns
    return rates


def one_size(options, report, size):
    names = tuple(f"n{number}" for number in range(1, size + 1))
    # Members with so little of a processor are slow to speak: no member is to be given up.
    settings = {"names": names, "wiring": "chain", "lease": "30s"}
    with clusters.capped(SHARE) as cap, clusters.running(options.scratch, **settings) as cluster:
        fill = {"items": ITEMS, "connections": 1}
        clusters.drive("fill", [clusters.address(cluster, names[0])], **fill)
        for name, member in cluster.members.items():
            cap(name, member.process.pid)
        everybody = [clusters.address(cluster, name) for name in names]
        sides = {"tail": [clusters.address(cluster, tail_of(cluster))], "all": everybody}
        rates = {side: [] for side in sides}
        # What members still owe from their start, they pay before they are measured.
        gets(everybody, 2 if options.small else 10)
        for _ in range(options.runs):
            once = one_run(sides, TURNS_SMALL if options.small else TURNS)
            for side, rate in once.items():
                rates[side].append(rate)
        report.series(f"chain of {size}: strong reads at the tail", rates["tail"], "/s")
        report.series(f"chain of {size}: strong reads at all", rates["all"], "/s")
        report.ratio(f"chain of {size}: all / tail", rates["all"], rates["tail"], PROMISED[size])


def run(options, report):
    reason = clusters.can_cap()
    if reason:
        print(f"scaling: skipped: {reason}")
        return
    print(f"scaling: each member has {SHARE:.0%} of a core")
    for size in [3] if options.small else PROMISED:
        one_size(options, report, size)
