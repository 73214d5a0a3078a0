"""A dictionary in the pool, for any number of programs that read and write it at a time.

There is no server and no lock. A table of words stands in one region; each word leads to a *bucket*, a block of a heap that has all
entries of the keys whose hash leads there. A writer makes the bucket anew and swaps the word in one step; another who was faster has it
try again. A reader checks that what it read is the bucket that the word stood for.

::

    NAME    | header | word word word ...           word: tag, segment, bytes of the bucket, place
    NAME.0  | heap: buckets, and values that are too long for one
    NAME.1  | the next heap, twice as long, when that one is full

A program that is killed leaves each key with its old value or its new one; what it had taken of the heap and not yet linked is not
found again until the dictionary is removed.
"""

from __future__ import annotations

import pickle
import random
import struct
import time
import zlib
from collections.abc import Iterator, MutableMapping
from hashlib import blake2b
from typing import Any, NamedTuple

from .errors import BadAttributes, BadLength, Garbage, HeapFull, LimitReached, NameTaken, Timeout, UnknownRegion
from .pool import Pool, Region, connect

__all__ = ["Dict"]

#: The attribute by which a region says that it is such a table.
_ATTRIBUTE = "hanare.dict"
_HEADER_LEN = 64
#: Heaps of one dictionary: the last is as long as all before it together.
_SEGMENT_COUNT_MAX = 64
#: Blocks of a heap lie at multiples of so many bytes.
_GRANULE = 64
#: How often a bucket that others change is tried: some seconds.
_TURN_COUNT_MAX = 5000
#: Bytes of a value that lies in its bucket: one more block costs a message, a longer bucket is copied with each change.
_INLINE_LEN_MAX = 1024
#: Head of a bucket: its bytes, entries, byte of its word, tag, nothing, checksum of the rest.
_BUCKET = struct.Struct("<IIQHHI")
#: Head of an entry: hash, bytes of key and value, where the value is if it is far, its kind and checksum.
_ENTRY = struct.Struct("<QIIQBxxxI")


class _Word(NamedTuple):
    """Where a bucket is. The tag counts its changes; place 0 is no bucket."""

    tag: int
    segment: int
    granules: int
    place: int

    @classmethod
    def read(cls, word: int) -> _Word:
        return cls(word >> 48, word >> 42 & 63, word >> 30 & 0xFFF, word & 0x3FFF_FFFF)

    def write(self) -> int:
        return self.tag << 48 | self.segment << 42 | min(self.granules, 0xFFF) << 30 | self.place


class _Entry(NamedTuple):
    """A key's entry: the value itself, or where it lies (segment and place) and its checksum."""

    key: bytes
    value: bytes
    length: int
    far: int
    kind: int
    checksum: int


def _encode_key(key: Any) -> bytes:
    """Write a key so that equal keys are equal bytes in every program."""
    if isinstance(key, str):
        text = key.encode("utf-8", "surrogatepass")
        return b"s" + text
    if isinstance(key, (bytes, bytearray)):
        return b"b" + bytes(key)
    if isinstance(key, (bool, int)) or (isinstance(key, float) and key.is_integer()):
        return b"i" + str(int(key)).encode()
    if isinstance(key, float):
        return b"f" + struct.pack("<d", key)
    if key is None:
        return b"n"
    if isinstance(key, tuple):
        parts = [_encode_key(part) for part in key]
        return b"t" + b"".join(struct.pack("<I", len(part)) + part for part in parts)
    raise TypeError(f"a key is a text, bytes, a number, None, or a tuple of those; not {type(key).__name__}")


def _decode_key(coded: bytes) -> Any:
    kind, rest = coded[:1], coded[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if kind == b"b":
        return rest
    if kind == b"i":
        return int(rest)
    if kind == b"f":
        return struct.unpack("<d", rest)[0]
    if kind == b"n":
        return None
    parts = []
    while rest:
        (length,) = struct.unpack_from("<I", rest)
        parts.append(_decode_key(rest[4 : 4 + length]))
        rest = rest[4 + length :]
    return tuple(parts)


def _encode_value(value: Any) -> tuple[int, bytes]:
    if type(value) is bytes:
        return 0, value
    return 1, pickle.dumps(value, protocol=5)


class _Changed(Exception):
    """A bucket was changed while it was read."""


class Dict(MutableMapping[Any, Any]):
    """A dictionary that programs on all hosts share.

    Keys are texts, bytes, numbers, ``None``, and tuples of those; values bytes, or whatever can be pickled. Each call is one step to
    all others: a value is seen whole, old or new. Iteration sees what was there all the time, and may or may not see what changes
    meanwhile.

    Parameters
    ----------
    name : str
        Its name; the first to open it makes it.
    pool : Pool, optional
        The pool; by default that of `connect`.
    place : str
        Where its bytes go, as for `Pool.array`; where it is made.
    buckets : int
        Words of the table: about as many as there will be keys. Where it is made.
    memory : int
        Bytes of its first heap; each further one is twice as long. Where it is made.

    Raises
    ------
    NodeLost, RegionLost
        By any call: bytes of it went with a node.
    PoolFull
        By assignments.

    Notes
    -----
    **Cost**: on this host some copies for a value that is read, and two messages to this host's node for one that is written. Elsewhere two
    messages each way for a short value that is read, four for a long one.
    """

    def __init__(
        self, name: str, *, pool: Pool | None = None, place: str = "local", buckets: int = 1 << 14, memory: int = 16 << 20
    ) -> None:
        self.name, self._pool, self._place = name, pool if pool is not None else connect(), place
        self._table = self._open_table(buckets, memory)
        told = dict(part.split("=") for part in self._table.native.attributes()[_ATTRIBUTE].decode().split(","))
        self._buckets, self._memory, self._place = int(told["buckets"]), int(told["memory"]), told["place"].replace(":", "=")
        self._segments: list[Region] = []

    def _open_table(self, buckets: int, memory: int) -> Region:
        if buckets <= 0 or memory < 4096:
            raise ValueError("a dictionary has at least one bucket, and 4096 bytes of memory")
        terms = f"buckets={buckets},memory={memory},place={self._place.replace('=', ':')}"
        length = _HEADER_LEN + 8 * buckets
        try:
            native = self._pool._native.create(self.name, length, self._place, 0o600, False, {_ATTRIBUTE: terms.encode()})
        except NameTaken:
            native = self._pool._native.open(self.name, None)
            if _ATTRIBUTE not in native.attributes():
                raise BadAttributes(f"region '{self.name}' is no dictionary") from None
        return Region(self._pool, native, None)

    # The words of the table.

    def _at(self, coded: bytes) -> int:
        """Byte of the table where the word of a key stands."""
        return _HEADER_LEN + 8 * (_hash(coded) % self._buckets)

    def _word(self, at: int) -> _Word:
        word = bytearray(8)
        self._table.native.get((at, 8, []), word)
        return _Word.read(int.from_bytes(word, "little"))

    # The heaps.

    def _segment(self, number: int) -> Region:
        """The heap of that number, which somebody has made."""
        while len(self._segments) <= number:
            self._segments.append(self._pool.region(f"{self.name}.{len(self._segments)}"))
        return self._segments[number]

    def _make_segment(self, number: int, length: int) -> Region:
        name = f"{self.name}.{number}"
        try:
            native = self._pool._native.create(name, length, self._place, 0o600, True, {})
            return Region(self._pool, native, None)
        except BadLength:
            # Another program made it, for another value.
            return self._pool.region(name)

    def _allocate(self, length: int) -> tuple[int, int]:
        """Take a block: its heap's number, and its place in granules."""
        known = len(self._segments)
        # The newest first: it is the largest, and the last that was full.
        for number in (*reversed(range(known)), *range(known, _SEGMENT_COUNT_MAX)):
            if number == len(self._segments):
                planned = max(self._memory << number, 2 * length + 4096)
                self._segments.append(self._make_segment(number, planned))
            try:
                offset = self._segments[number].native.allocate(length)
                return number, offset // _GRANULE
            except (HeapFull, LimitReached):
                continue
        raise LimitReached(f"dictionary '{self.name}' has {_SEGMENT_COUNT_MAX} heaps, and all are full")

    def _write(self, data: bytes) -> tuple[int, int]:
        segment, place = self._allocate(len(data))
        self._segment(segment).native.put((place * _GRANULE, len(data), []), data)
        return segment, place

    def _free(self, segment: int, place: int) -> None:
        if place:
            self._segment(segment).native.free(place * _GRANULE)

    def _read(self, segment: int, place: int, length: int) -> bytes:
        into = bytearray(length)
        region = self._segment(segment)
        begin = place * _GRANULE
        if begin + length > region.nbytes:
            raise _Changed
        region.native.get((begin, length, []), into)
        return bytes(into)

    # Buckets.

    def _bucket(self, at: int, word: _Word) -> list[_Entry]:
        """The entries of a bucket. **Errors**: `_Changed` where it is another's memory by now."""
        if not word.place:
            return []
        length = word.granules * _GRANULE
        raw = self._read(word.segment, word.place, length if word.granules < 0xFFF else _BUCKET.size)
        whole, count, where, tag, _, checksum = _BUCKET.unpack_from(raw)
        if (where, tag) != (at, word.tag) or whole < _BUCKET.size:
            raise _Changed
        if whole > len(raw):
            raw = self._read(word.segment, word.place, whole)
        if zlib.crc32(raw[_BUCKET.size : whole]) != checksum:
            raise _Changed
        entries, begin = [], _BUCKET.size
        for _ in range(count):
            _, key_len, value_len, far, kind, value_sum = _ENTRY.unpack_from(raw, begin)
            begin += _ENTRY.size
            key = raw[begin : begin + key_len]
            begin += key_len
            value = b"" if far else raw[begin : begin + value_len]
            begin += len(value)
            entries.append(_Entry(key, value, value_len, far, kind, value_sum))
        return entries

    @staticmethod
    def _encode_bucket(at: int, tag: int, entries: list[_Entry]) -> bytes:
        parts = []
        for entry in entries:
            head = _ENTRY.pack(_hash(entry.key), len(entry.key), entry.length, entry.far, entry.kind, entry.checksum)
            parts += [head, entry.key, entry.value]
        body = b"".join(parts)
        return _BUCKET.pack(_BUCKET.size + len(body), len(entries), at, tag, 0, zlib.crc32(body)) + body

    def _value(self, at: int, word: _Word, entry: _Entry) -> Any:
        raw = entry.value
        if entry.far:
            raw = self._read(entry.far >> 32, entry.far & 0xFFFF_FFFF, entry.length)
            # The block may have been given back and used again while it was read; the word tells.
            if self._word(at) != word and zlib.crc32(raw) != entry.checksum:
                raise _Changed
        return raw if entry.kind == 0 else pickle.loads(raw)

    def _find(self, coded: bytes) -> tuple[int, _Word, list[_Entry]]:
        at = self._at(coded)
        for turn in range(_TURN_COUNT_MAX):
            word = self._word(at)
            try:
                return at, word, self._bucket(at, word)
            except _Changed:
                _pause(turn)
        raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense")

    def _swap(self, at: int, word: _Word, entries: list[_Entry]) -> bool:
        """Put a bucket in another's place; say whether nobody was faster."""
        tag = (word.tag + 1) & 0xFFFF
        segment, place, length = 0, 0, 0
        if entries:
            data = self._encode_bucket(at, tag, entries)
            length = len(data)
            padded = data + bytes(-length % _GRANULE)
            segment, place = self._write(padded)
        fresh = _Word(tag, segment, -(-length // _GRANULE), place)
        if self._table.native.compare_and_swap_word(at, word.write(), fresh.write()) == word.write():
            self._free(word.segment, word.place)
            return True
        self._free(segment, place)
        return False

    def _change(self, coded: bytes, fresh: _Entry | None) -> _Entry | None:
        """Set a key's entry, or take it away; return the one before."""
        for turn in range(_TURN_COUNT_MAX):
            at, word, entries = self._find(coded)
            before = next((entry for entry in entries if entry.key == coded), None)
            if fresh is None and before is None:
                return None
            rest = [entry for entry in entries if entry.key != coded]
            if self._swap(at, word, rest + ([fresh] if fresh is not None else [])):
                return before
            _pause(turn)
        raise Timeout(f"dictionary '{self.name}' is changed by others all the time; nothing was done")

    # A mapping.

    def __getitem__(self, key: Any) -> Any:
        coded = _encode_key(key)
        while True:
            at, word, entries = self._find(coded)
            for entry in entries:
                if entry.key == coded:
                    try:
                        return self._value(at, word, entry)
                    except _Changed:
                        break
            else:
                raise KeyError(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        kind, raw = _encode_value(value)
        coded = _encode_key(key)
        if len(raw) > _INLINE_LEN_MAX:
            segment, place = self._write(raw)
            fresh = _Entry(coded, b"", len(raw), segment << 32 | place, kind, zlib.crc32(raw))
        else:
            fresh = _Entry(coded, raw, len(raw), 0, kind, 0)
        self._let_go(self._change(coded, fresh))

    def __delitem__(self, key: Any) -> None:
        before = self._change(_encode_key(key), None)
        if before is None:
            raise KeyError(key)
        self._let_go(before)

    def _let_go(self, entry: _Entry | None) -> None:
        if entry is not None and entry.far:
            self._free(entry.far >> 32, entry.far & 0xFFFF_FFFF)

    def __contains__(self, key: object) -> bool:
        coded = _encode_key(key)
        return any(entry.key == coded for entry in self._find(coded)[2])

    def _all(self) -> Iterator[tuple[int, _Word, list[_Entry]]]:
        table = self._table.get(_HEADER_LEN)
        for number in range(self._buckets):
            word = _Word.read(int.from_bytes(table[8 * number : 8 * number + 8], "little"))
            at = _HEADER_LEN + 8 * number
            for turn in range(_TURN_COUNT_MAX):
                if not word.place:
                    break
                try:
                    yield at, word, self._bucket(at, word)
                    break
                except _Changed:
                    _pause(turn)
                    word = self._word(at)

    def __iter__(self) -> Iterator[Any]:
        for _, _, entries in self._all():
            for entry in entries:
                yield _decode_key(entry.key)

    def __len__(self) -> int:
        return sum(len(entries) for _, _, entries in self._all())

    def clear(self) -> None:
        """Take all keys away."""
        for key in list(self):
            self.pop(key, None)

    def remove(self) -> None:
        """Remove the dictionary from the pool."""
        self._table.remove()
        for number in range(_SEGMENT_COUNT_MAX):
            try:
                self._pool.remove(f"{self.name}.{number}")
            except UnknownRegion:
                return

    def __reduce__(self) -> Any:
        return Dict, (self.name,)

    def __repr__(self) -> str:
        return f"<hanare.Dict '{self.name}'>"


def _hash(coded: bytes) -> int:
    return int.from_bytes(blake2b(coded, digest_size=8).digest(), "little")


def _pause(turn: int) -> None:
    """Let others go first, longer each time, by chance."""
    if turn > 2:
        time.sleep(random.random() * min(1e-5 * 2 ** min(turn, 8), 2e-3))
