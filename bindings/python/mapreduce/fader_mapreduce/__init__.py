"""Jobs for Fader's MapReduce without a master, as Python classes.

A job is a class with a mapper, a combiner, a reducer, or several steps of them. Its `run` hands it
to `fader mapreduce`; workers run it with the file that it is in, over frames
(docs/reference/format/frames.md).
"""

from .job import Job, Step

__all__ = ["Job", "Step"]
