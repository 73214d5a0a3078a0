"""Values of a dictionary as bytes.

=======  ============================================================================================================
kind     bytes
=======  ============================================================================================================
plain    as they are
JSON     texts, numbers, truth values, ``None``, and lists and dictionaries of those
array    what the array is, as a region's attributes say it, and its bytes
pickled  a pickle
beside   a pickle, and its long buffers, each at a place of its own
=======  ============================================================================================================

An array and a pickle with buffers lie so::

    lengths of the text, and of buffers: count u32, text u32, buffer u64 ... | text | padding | buffer | padding | buffer ...

All of it is input. A pickle may run any program, so it is read only where all that may have written it are trusted that far. The other kinds make
values and nothing else.
"""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any, NamedTuple

import numpy as np

from ._hanare import ARRAY, BESIDE, GRANULE, JSON, PICKLED, PLAIN, VIEWED_LEN_MIN
from ._terms import from_attributes, to_attributes
from .errors import BadAttributes, Garbage

#: Kinds that may run a program when they are read.
PROGRAMS = (PICKLED, BESIDE)

_COUNTS, _LENGTH = struct.Struct("<II"), struct.Struct("<Q")
#: Bytes of the longest text that says what an array is.
_TERMS_LEN_MAX = 1 << 16
#: Levels of lists and dictionaries that JSON takes here, below what its parser takes.
_LEVELS_MAX = 100
_SCALARS = (str, int, float, bool, type(None))


class Encoded(NamedTuple):
    """A value's kind, its bytes in parts that follow each other, and how many they are."""

    kind: int
    parts: list[Any]
    length: int


def rounded(length: int) -> int:
    """Bytes that a block of that length takes."""
    return -(-length // GRANULE) * GRANULE


def encode_value(value: Any, may_pickle: bool = True) -> Encoded:
    """Write a value down. Long buffers (of arrays, above all) are not copied.

    Raises
    ------
    TypeError
        It has to be pickled, and may not be.
    """
    kind = type(value)
    if kind is bytes:
        return Encoded(PLAIN, [value], len(value))
    written = _encode_array(value) if kind is np.ndarray else None
    # Lists are pickled where that is possible: they may hold one object twice, or themselves.
    if kind in _SCALARS or not may_pickle:
        written = written or _encode_json(value)
    if written is not None:
        return written
    if may_pickle:
        return _encode_pickle(value)
    raise TypeError(
        f"a {kind.__name__} has to be pickled, and this dictionary takes no pickles, because others may write it or it is another user's: "
        "give bytes, an array without objects, or texts, numbers, lists and dictionaries of those; or open it with pickle=True"
    )


def _in_parts(kind: int, text: bytes, buffers: list[Any]) -> Encoded:
    head = _COUNTS.pack(len(buffers), len(text)) + b"".join(_LENGTH.pack(raw.nbytes) for raw in buffers) + text
    parts: list[Any] = [head + bytes(-len(head) % GRANULE)]
    for raw in buffers:
        parts += [raw, bytes(-raw.nbytes % GRANULE)]
    parts = [part for part in parts if len(part)]
    return Encoded(kind, parts, sum(len(part) for part in parts))


def _encode_pickle(value: Any) -> Encoded:
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
    return _in_parts(BESIDE, pickled, beside) if beside else Encoded(PICKLED, [pickled], len(pickled))


def _encode_array(array: np.ndarray[Any, Any]) -> Encoded | None:
    """An array without objects; ``None`` for one whose type a text does not say."""
    if array.dtype.hasobject or array.dtype.itemsize == 0:
        return None
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    try:
        terms = to_attributes(array.dtype, array.shape, is_fortran)
        if from_attributes("", terms, array.nbytes)[0] != array.dtype:
            return None
    except (BadAttributes, TypeError, ValueError):
        return None
    text = json.dumps({name: value.decode() for name, value in terms.items()}).encode()
    if len(text) > _TERMS_LEN_MAX:
        return None
    flat = np.ascontiguousarray(array.T if is_fortran else array).reshape(-1).view(np.uint8)
    return _in_parts(ARRAY, text, [flat.data] if flat.size else [])


def _encode_json(value: Any) -> Encoded | None:
    """What JSON gives back as it was; ``None`` for all else."""
    if not _is_json(value, _LEVELS_MAX):
        return None
    try:
        # Not escaped: two halves of a character that stand side by side would come back as one.
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except ValueError:
        # A number of more digits than Python reads.
        return None
    return Encoded(JSON, [text], len(text))


def _is_json(value: Any, levels: int) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return True
    if levels == 0 or kind not in (list, dict):
        return False
    if kind is list:
        return all(_is_json(each, levels - 1) for each in value)
    return all(type(key) is str and _is_json(each, levels - 1) for key, each in value.items())


def decode_value(kind: int, raw: Any) -> Any:
    """Read a value. Buffers of arrays and beside a pickle are parts of `raw`, and as read-only as that is.

    Raises
    ------
    Garbage
        The bytes are none that a program writes.
    """
    if kind == PLAIN:
        return raw
    if kind == JSON:
        return _decode_json(raw)
    if kind == ARRAY:
        return _decode_array(*_parts_of(raw))
    if kind == PICKLED:
        return pickle.loads(raw)
    if kind == BESIDE:
        text, buffers = _parts_of(raw)
        return pickle.loads(text, buffers=buffers)
    raise Garbage(f"a value of a dictionary is of kind {kind}, which this build does not know")


def _parts_of(raw: Any) -> tuple[memoryview, list[memoryview]]:
    raw, buffers = memoryview(raw), []
    try:
        count, text_len = _COUNTS.unpack_from(raw)
        begin = _COUNTS.size + _LENGTH.size * count
        if begin + text_len > len(raw):
            raise Garbage("a value of a dictionary is shorter than it says")
        lengths = [_LENGTH.unpack_from(raw, at)[0] for at in range(_COUNTS.size, begin, _LENGTH.size)]
    except struct.error:
        raise Garbage("a value of a dictionary is shorter than it says") from None
    text, at = raw[begin : begin + text_len], rounded(begin + text_len)
    for length in lengths:
        buffers.append(raw[at : at + length])
        at += rounded(length)
    if at != len(raw):
        raise Garbage("a value of a dictionary is not as long as it says")
    return text, buffers


def _decode_json(raw: Any) -> Any:
    try:
        return json.loads(bytes(raw).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as odd:
        raise Garbage(f"a value of a dictionary is no JSON: {odd}") from None


def _decode_array(text: memoryview, buffers: list[memoryview]) -> np.ndarray[Any, Any]:
    odd = Garbage("a value of a dictionary is no array, though it says so")
    if len(text) > _TERMS_LEN_MAX or len(buffers) > 1:
        raise odd
    told = _decode_json(text)
    if not isinstance(told, dict) or not {"descr", "shape"} <= set(told) or not all(isinstance(term, str) for term in told.values()):
        raise odd
    raw: Any = buffers[0] if buffers else bytearray()
    try:
        terms = {name: value.encode() for name, value in told.items()}
        dtype, shape, is_fortran = from_attributes("of a dictionary", terms, len(raw))
        made: np.ndarray[Any, Any] = np.ndarray(shape, dtype, raw, order="F" if is_fortran else "C")
    except (BadAttributes, ValueError, TypeError, OverflowError, MemoryError) as wrong:
        raise odd from wrong
    if made.nbytes != len(raw):
        raise odd
    return made
