"""What a worker starts: one step of a job, as mapper or as reducer, over frames.

    python3 fader_mapreduce.zip FILE CLASS STEP OPTIONS
"""

import importlib.util
import json
import os
import sys
import types

from . import frames
from .tasks import map_records, reduce_groups
from .values import decode, read_json_line


def _streams():
    """The worker's pipes, out of the way of all that the job reads and prints."""
    source = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
    sink = os.fdopen(os.dup(1), "wb", buffering=1 << 18)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink


def _job(path, name, options):
    sys.path.insert(1, os.getcwd())
    spec = importlib.util.spec_from_file_location("job", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["job"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)(types.SimpleNamespace(**options))


def _records(reader, is_first):
    """The records of a map task: pairs of key and value."""
    source = None
    while True:
        kind, body = reader.next()
        if kind == frames.SOURCE:
            source = json.loads(body)["name"]
        elif kind == frames.LINES:
            lines = body.split(b"\n")
            if not lines[-1]:
                lines.pop()
            if is_first:
                for line in lines:
                    yield source, line.decode("utf-8", "surrogateescape")
            else:
                yield from map(read_json_line, lines)
        elif kind == frames.WHOLE:
            yield source, body
        elif kind == frames.END:
            return
        else:
            raise ValueError(f"a frame of kind {kind!r} for a mapper")


def _groups(reader):
    """The keys of a reduce task, each with an iterator of its values."""
    kind, body = reader.next()

    def values():
        nonlocal kind, body
        while True:
            kind, body = reader.next()
            if kind != frames.VALUES:
                return
            yield from map(decode, frames.sized(body))

    while kind == frames.KEY:
        of_key = values()
        yield decode(body), of_key
        # The reducer may have left some.
        for _ in of_key:
            pass
    if kind != frames.END:
        raise ValueError(f"a frame of kind {kind!r} for a reducer")


def main(arguments):
    path, name, number, options = arguments
    source, sink = _streams()
    writer, reader = frames.Writer(sink), frames.Reader(source)
    writer.hello()
    hello = reader.hello()
    job = _job(path, name, json.loads(options))
    steps, number = job.steps(), int(number)
    if hello["role"] == "map":
        map_records(job, steps[number], _records(reader, number == 0), writer.pair)
    else:
        is_last = number + 1 == len(steps)
        reduce_groups(job, steps[number], _groups(reader), is_last, writer.pair)
    writer.end(job.counters)
