"""Medians with their intervals, ratios of them, and what was promised."""

import math
import random
import statistics

RESAMPLES = 2000


def interval(values, of=statistics.median):
    """What 95 of 100 repetitions would give, by resampling."""
    chance = random.Random(1)
    found = sorted(of(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return found[RESAMPLES // 40], found[-RESAMPLES // 40]


def quotient(one, other):
    """Without end where a small run on a slow machine measured nothing of the other."""
    return one / other if other else math.inf


def ratio(one, other):
    """The ratio of medians, with its interval: both sides are resampled."""
    chance = random.Random(1)
    draw = lambda values: statistics.median(chance.choices(values, k=len(values)))
    found = sorted(quotient(draw(one), draw(other)) for _ in range(RESAMPLES))
    middle = quotient(statistics.median(one), statistics.median(other))
    return middle, found[RESAMPLES // 40], found[-RESAMPLES // 40]


def share(text):
    """`60%` as 0.6."""
    percent = float(text.removesuffix("%"))
    if not 1 <= percent <= 400:
        raise ValueError(text)
    return percent / 100


class Report:
    """Lines as they come, and whether all that was promised is so."""

    def __init__(self, is_small):
        self.is_small = is_small
        self.missed = 0

    def series(self, name, values, unit):
        low, high = interval(values)
        middle = statistics.median(values)
        print(f"{name:<44} {middle:>10.4g} {unit:<6} [{low:.4g}, {high:.4g}] of {len(values)}",
              flush=True)
        return middle

    def counts(self, name, found):
        told = [f"{key} {count}" for key, count in sorted(found.items()) if count]
        print(f"{name:<44} {', '.join(told) or 'none'}", flush=True)

    def _judge(self, name, figure, is_kept, promise):
        verdict = "" if self.is_small else "   ok" if is_kept else "   MISSED"
        print(f"{name:<44} {figure}   promised: {promise}{verdict}", flush=True)
        if not is_kept and not self.is_small:
            self.missed += 1

    def promise(self, name, is_kept, promise):
        self._judge(name, f"{'yes' if is_kept else 'no':>10}", is_kept, promise)

    def ratio(self, name, one, other, least=None):
        """Without `least` nothing is promised."""
        middle, low, high = ratio(one, other)
        figure = f"{middle:>10.4g} x      [{low:.4g}, {high:.4g}]"
        if least is None:
            print(f"{name:<44} {figure}", flush=True)
        else:
            self._judge(name, figure, least <= middle, f"at least {least} x")

    def at_most(self, name, values, most, unit):
        low, high = interval(values)
        middle = statistics.median(values)
        figure = f"{middle:>10.4g} {unit:<6} [{low:.4g}, {high:.4g}]"
        self._judge(name, figure, middle <= most, f"at most {most:g} {unit}")

    def at_least(self, name, value, least, unit):
        self._judge(name, f"{value:>10.4g} {unit}", least <= value, f"at least {least:g} {unit}")

    def falls(self, name, steps, points, unit):
        """That no step rises, and that the last point is below the first. What noise could be is
        none: a step goes the wrong way if the intervals of its medians are apart."""
        self._moves(name, steps, points, unit, "falls", lambda one, other: other[1] < one[0])

    def rises(self, name, steps, points, unit):
        """The same the other way round."""
        self._moves(name, steps, points, unit, "rises", lambda one, other: one[1] < other[0])

    def _moves(self, name, steps, points, unit, verb, is_right):
        for step, values in zip(steps, points):
            self.series(f"{name}, {step}", values, unit)
        intervals = [interval(values) for values in points]
        wrong = [
            step
            for step, one, other in zip(steps[1:], intervals, intervals[1:])
            if is_right(other, one)
        ]
        is_kept = not wrong and is_right(intervals[0], intervals[-1])
        told = f"always{', but not at ' + ', '.join(wrong) if wrong else ''}"
        self.promise(f"{name} {verb}", is_kept, told)

    def code(self):
        if self.is_small:
            print("judges nothing")
        return 1 if self.missed else 0
