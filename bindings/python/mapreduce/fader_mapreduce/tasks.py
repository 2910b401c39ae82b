"""Runs a step on records or groups: what programs and inline runs have in common."""

from .values import encode, json_line, text_line

# Pairs that a combiner gathers before it runs.
_COMBINED = 100_000


class _Combiner:
    """Gathers pairs by key, and gives what the combiner makes of them."""

    def __init__(self, combiner, emit):
        self._combiner = combiner
        self._emit = emit
        self._keys = {}
        self._count = 0

    def take(self, key, value):
        data = encode(key)
        found = self._keys.get(data)
        if found is None:
            self._keys[data] = (key, [value])
        else:
            found[1].append(value)
        self._count += 1
        if _COMBINED <= self._count:
            self.flush()

    def flush(self):
        for key, values in self._keys.values():
            for combined, value in self._combiner(key, iter(values)) or ():
                self._emit(encode(combined), encode(value))
        self._keys.clear()
        self._count = 0


def map_records(job, step, records, emit):
    """Maps records. `emit` takes keys and values as bytes."""
    if step.combiner is None:

        def take(key, value):
            emit(encode(key), encode(value))

        flush = None
    else:
        gathered = _Combiner(step.combiner, emit)
        take, flush = gathered.take, gathered.flush
    for key, value in _called(step.mapper_init):
        take(key, value)
    mapper = step.mapper
    if mapper is None:
        for key, value in records:
            take(key, value)
    else:
        for record in records:
            for key, value in mapper(*record) or ():
                take(key, value)
    for key, value in _called(step.mapper_final):
        take(key, value)
    if flush:
        flush()


def reduce_groups(job, step, groups, is_last, emit):
    """Reduces groups. `emit` takes an empty key, a line, and the number of an output."""
    is_json = not is_last or job.output == "json"
    line = json_line if is_json else text_line

    def write(output, key, value):
        if type(output) is not int or not 0 <= output <= 255:
            raise ValueError(f"output {output!r}: there are 0 to 255")
        if output and not is_last:
            raise ValueError("only the last step has further outputs")
        emit(b"", line(key, value), output)

    job.bind(write)
    for key, value in _called(step.reducer_init):
        write(0, key, value)
    reducer = step.reducer
    for key, values in groups:
        if reducer is None:
            for value in values:
                write(0, key, value)
        else:
            for made, value in reducer(key, values) or ():
                write(0, made, value)
    for key, value in _called(step.reducer_final):
        write(0, key, value)


def _called(hook):
    return (hook() or ()) if hook else ()
