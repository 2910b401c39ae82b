"""When a benchmark says that something falls or rises."""

import pytest

from benchmarks.figures import Report

STEPS = ["0 %", "50 %", "100 %"]


@pytest.mark.parametrize(
    ("points", "missed"),
    [
        # Each step is clear.
        ([[9, 9.1, 9.2], [7, 7.1, 7.2], [5, 5.1, 5.2]], 0),
        # A step the wrong way that noise could be is none.
        ([[9, 9.1, 9.2], [6, 6.5, 7], [6.4, 6.8, 7.5]], 0),
        # One that noise could not be.
        ([[9, 9.1, 9.2], [6, 6.1, 6.2], [7, 7.1, 7.2]], 1),
        # All is one, for all that is known.
        ([[9, 9.5, 10], [9, 9.4, 10], [9, 9.3, 10]], 1),
    ],
)
def test_gauges_fall_and_counters_rise(points, missed, capsys):
    report = Report(is_small=False)
    report.falls("latency", STEPS, points, "ms")
    assert report.missed == missed
    report.rises("throughput", STEPS, [[-value for value in point] for point in points], "1/s")
    assert report.missed == 2 * missed
    if missed:
        assert "MISSED" in capsys.readouterr().out
