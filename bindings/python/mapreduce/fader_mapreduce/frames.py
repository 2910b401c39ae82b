"""Frames between a worker and a program: docs/reference/format/frames.md."""

import json
import struct

FORMAT = 1
_HEAD = struct.Struct(">cI")
_SIZE = struct.Struct(">I")

HELLO, SOURCE, LINES, WHOLE, KEY, VALUES, PAIRS, COUNTERS, END = (
    bytes([byte]) for byte in b"HSLWKVPCE"
)

# Bytes of pairs that are gathered for one frame.
_GATHERED = 256 << 10
# Bytes of a frame to this program, at most: a record of the largest size, and its length.
_BODY_MAX = 80 << 20


class Reader:
    """Frames of a binary file."""

    def __init__(self, file):
        self._file = file

    def next(self):
        """The next frame: kind and body."""
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise EOFError("the worker has gone")
        kind, size = _HEAD.unpack(head)
        if _BODY_MAX < size:
            raise ValueError(f"a frame of {size} bytes")
        body = self._file.read(size)
        if len(body) < size:
            raise EOFError("the worker has gone")
        return kind, body

    def hello(self):
        """The worker's first frame."""
        kind, body = self.next()
        if kind != HELLO:
            raise ValueError("the worker does not speak frames")
        hello = json.loads(body)
        if hello["format"] != FORMAT:
            raise ValueError(f"the worker speaks format {hello['format']}, this library {FORMAT}")
        return hello


class Writer:
    """Writes frames to a binary file; pairs are gathered for each output."""

    def __init__(self, file):
        self._file = file
        self._pairs = {}
        self._bytes = 0

    def _frame(self, kind, body):
        self._file.write(_HEAD.pack(kind, len(body)))
        self._file.write(body)

    def hello(self):
        """Greets the worker."""
        self._frame(HELLO, json.dumps({"format": FORMAT}).encode())
        self._file.flush()

    def pair(self, key, value, output=0):
        """A pair of bytes for an output."""
        pairs = self._pairs.get(output)
        if pairs is None:
            pairs = self._pairs[output] = [bytes([output])]
        pairs += (_SIZE.pack(len(key)), key, _SIZE.pack(len(value)), value)
        self._bytes += len(key) + len(value) + 8
        if _GATHERED <= self._bytes:
            self.flush()

    def flush(self):
        """Writes the pairs that were gathered."""
        for pairs in self._pairs.values():
            self._frame(PAIRS, b"".join(pairs))
        self._pairs.clear()
        self._bytes = 0

    def end(self, counters):
        """Says that all is done."""
        self.flush()
        if counters:
            self._frame(COUNTERS, json.dumps(counters).encode())
        self._frame(END, b"")
        self._file.flush()


def sized(body):
    """The pieces of a body that stand after their lengths."""
    at, end = 0, len(body)
    while at < end:
        (size,) = _SIZE.unpack_from(body, at)
        at += 4 + size
        yield body[at - size : at]
