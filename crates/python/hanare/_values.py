"""Values of a dictionary as bytes: as they are, pickled, or pickled with their long buffers beside the pickle, each at a place of its own.

::

    lengths of pickle, and of buffers: count u32, pickle u32, buffer u64 ... | pickle | padding | buffer | padding | buffer ...
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, NamedTuple

from ._hanare import GRANULE, PLAIN, VIEWED_LEN_MIN, checksum
from .errors import Garbage

#: Kinds of values, besides bytes as they are.
PICKLED, BESIDE = 1, 2
_COUNTS, _LENGTH = struct.Struct("<II"), struct.Struct("<Q")


class Encoded(NamedTuple):
    """A value's kind, its bytes in parts that follow each other, and how many they are."""

    kind: int
    parts: list[Any]
    length: int

    def checksum(self) -> int:
        return checksum(self.parts)


def rounded(length: int) -> int:
    """Bytes that a block of that length takes."""
    return -(-length // GRANULE) * GRANULE


def encode_value(value: Any) -> Encoded:
    """Write a value down. Long buffers (of arrays, above all) are not copied."""
    if type(value) is bytes:
        return Encoded(PLAIN, [value], len(value))
    beside: list[memoryview] = []

    def is_short(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            # Its bytes do not lie one after another.
            return True
        if raw.nbytes >= VIEWED_LEN_MIN:
            beside.append(raw)
            return False
        return True

    pickled = pickle.dumps(value, protocol=5, buffer_callback=is_short)
    if not beside:
        return Encoded(PICKLED, [pickled], len(pickled))
    head = _COUNTS.pack(len(beside), len(pickled)) + b"".join(_LENGTH.pack(raw.nbytes) for raw in beside) + pickled
    parts: list[Any] = [head + bytes(-len(head) % GRANULE)]
    for raw in beside:
        parts += [raw, bytes(-raw.nbytes % GRANULE)]
    parts = [part for part in parts if len(part)]
    return Encoded(BESIDE, parts, sum(len(part) for part in parts))


def decode_value(kind: int, raw: Any) -> Any:
    """Read a value. Buffers beside a pickle are parts of `raw`, and as read-only as that is.

    Raises
    ------
    Garbage
        The bytes are none that a program writes.
    """
    if kind == PLAIN:
        return raw
    if kind != BESIDE:
        return pickle.loads(raw)
    raw, buffers = memoryview(raw), []
    try:
        count, pickle_len = _COUNTS.unpack_from(raw)
        begin = _COUNTS.size + _LENGTH.size * count
        lengths = [_LENGTH.unpack_from(raw, at)[0] for at in range(_COUNTS.size, begin, _LENGTH.size)]
    except struct.error:
        raise Garbage("a value of a dictionary is shorter than it says") from None
    pickled, at = raw[begin : begin + pickle_len], rounded(begin + pickle_len)
    for length in lengths:
        buffers.append(raw[at : at + length])
        at += rounded(length)
    if at != len(raw):
        raise Garbage("a value of a dictionary is not as long as it says")
    return pickle.loads(pickled, buffers=buffers)
