"""Keys and values as bytes: through the shuffle, between steps, and in the output.

Through the shuffle a value is a letter and its bytes. Text and whole numbers are in their order
when their bytes are, since the shuffle orders keys by bytes.

    s text   i number + 2**63, 8 bytes   b bytes   n none   t tuple as JSON   j others as JSON
"""

import json

_BIAS = 1 << 63
_TUPLE, _NONE = ord("t"), ord("n")
_STR, _INT, _BYTES = ord("s"), ord("i"), ord("b")
_ERRORS = "surrogateescape"


def _to_json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def encode(value):
    """A value as its bytes in the shuffle."""
    kind = type(value)
    if kind is str:
        return b"s" + value.encode("utf-8", _ERRORS)
    if kind is int and -_BIAS <= value < _BIAS:
        return b"i" + (value + _BIAS).to_bytes(8, "big")
    if kind is bytes:
        return b"b" + value
    if value is None:
        return b"n"
    letter = b"t" if kind is tuple else b"j"
    return letter + _to_json(value).encode("utf-8", _ERRORS)


def decode(data):
    """The value of bytes in the shuffle."""
    kind = data[0]
    if kind == _STR:
        return data[1:].decode("utf-8", _ERRORS)
    if kind == _INT:
        return int.from_bytes(data[1:], "big") - _BIAS
    if kind == _BYTES:
        return data[1:]
    if kind == _NONE:
        return None
    value = json.loads(data[1:].decode("utf-8", _ERRORS))
    return tuple(value) if kind == _TUPLE else value


def text(value):
    """A value as it stands in a line of the output."""
    kind = type(value)
    if kind is str:
        return value.encode("utf-8", _ERRORS)
    if kind is bytes:
        return value
    return _to_json(value).encode("utf-8", _ERRORS)


def text_line(key, value):
    """A line of the output; without a key it is the value alone."""
    right = text(value)
    if key is None:
        line = right
    else:
        left = text(key)
        if b"\t" in left:
            raise ValueError(f"the key {key!r} has a TAB: set output = 'json', or leave it out")
        line = left + b"\t" + right
    if b"\n" in line:
        raise ValueError(f"the pair {key!r}, {value!r} has a line feed: set output = 'json'")
    return line


def json_line(key, value):
    """A line that the next step reads."""
    try:
        return (_to_json(key) + "\t" + _to_json(value)).encode("utf-8", _ERRORS)
    except TypeError as error:
        raise TypeError(f"the pair {key!r}, {value!r} is no JSON: {error}") from None


def read_json_line(line):
    """The pair of a line that a step wrote."""
    key, _, value = line.decode("utf-8", _ERRORS).partition("\t")
    return _hashable(json.loads(key)), json.loads(value)


def _hashable(value):
    return tuple(map(_hashable, value)) if type(value) is list else value
