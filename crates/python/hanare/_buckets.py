"""Tables of a dictionary: words, the buckets that they lead to, keys and values as bytes."""

from __future__ import annotations

import random
import struct
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._heaps import GRANULE, Changed, Heaps, node_of, rounded
from .errors import Error, GrantRefused
from .pool import Region

#: Words that are looked at to see whether a table is crowded, and the part of them in use from which it is: two keys to a word.
_SAMPLE_COUNT, _CROWDED = 64, 0.85
#: Words of another host's table that a program remembers: some 200 bytes each.
_SEEN_COUNT_MAX = 1 << 13
_FROZEN = 1 << 63
#: A word's place, where it is no bucket's 0.
PLACE = 0x3FFF_FFFF
#: Head of a bucket: its bytes, entries, number of its word, tag, nothing, checksum of the rest.
_BUCKET = struct.Struct("<IIQHHI")
#: Head of an entry: hash, bytes of key and value, where the value is if it is far, its kind and checksum.
_ENTRY = struct.Struct("<QIIQBxxxI")

Words = npt.NDArray[np.uint64]


class Word(NamedTuple):
    """Where a bucket is. The tag counts its changes; place 0 is no bucket; a frozen one never changes again."""

    is_frozen: bool
    tag: int
    segment: int
    granules: int
    place: int

    @classmethod
    def read(cls, word: int) -> Word:
        return cls(bool(word >> 63), word >> 48 & 0x7FFF, word >> 42 & 63, word >> 30 & 0xFFF, word & PLACE)

    def write(self) -> int:
        return self.is_frozen << 63 | self.tag << 48 | self.segment << 42 | min(self.granules, 0xFFF) << 30 | self.place


class Root(NamedTuple):
    """Which table and which values are those of the dictionary, and how often any were begun."""

    table: int
    values: int
    begun: int

    @classmethod
    def read(cls, word: int) -> Root:
        return cls(word >> 44, word >> 24 & 0xF_FFFF, word & 0xFF_FFFF)

    def write(self) -> int:
        return self.table << 44 | self.values << 24 | self.begun


class Entry(NamedTuple):
    """A key's entry: the value itself, or where it lies (segment and place) and its checksum."""

    key: bytes
    value: bytes
    length: int
    far: int
    kind: int
    checksum: int


def encode_key(key: Any) -> bytes:
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
        parts = [encode_key(part) for part in key]
        return b"t" + b"".join(struct.pack("<I", len(part)) + part for part in parts)
    raise TypeError(f"a key is a text, bytes, a number, None, or a tuple of those; not {type(key).__name__}")


def decode_key(coded: bytes) -> Any:
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
        parts.append(decode_key(rest[4 : 4 + length]))
        rest = rest[4 + length :]
    return tuple(parts)


def hash_of(coded: bytes) -> int:
    return int.from_bytes(blake2b(coded, digest_size=8).digest(), "little")


class Hashed:
    """A table of words, and the heaps that they lead to."""

    def __init__(self, root: Root, region: Region, buckets: Heaps, values: Heaps) -> None:
        self.root, self.region, self.buckets, self.values = root, region, buckets, values
        self.count = region.nbytes // 8
        self._is_here, self._node = region.is_local, node_of(region)
        #: The words that were seen last, by their numbers.
        self._seen: dict[int, Word] = {}

    def number_of(self, coded: bytes) -> int:
        """The word of a key."""
        return hash_of(coded) % self.count

    def word(self, number: int) -> Word:
        return Word.read(int.from_bytes(self.region.native.get_bytes(8 * number, 8), "little"))

    def look(self, number: int) -> tuple[Word, list[Entry]]:
        """A word and the entries of its bucket: in one message where the word is the one that this program saw last, else in two.

        What is remembered may be of any age, because the bucket counts only where the word that was read with it leads there. One node reads
        both, the word first. A bucket that was read before its word could be one of 32,768 changes ago, whose tag is the same.

        Raises
        ------
        Changed
        """
        seen = self._seen.get(number)
        word, raw = self._look_again(number, seen) if seen is not None else (self.word(number), None)
        entries = self.bucket(number, word, raw if word == seen else None)
        self.note(number, word)
        return word, entries

    def _look_again(self, number: int, seen: Word) -> tuple[Word, bytes | None]:
        """Read a word, and what lies where it led when it was seen."""
        word, raw = bytearray(8), bytearray(seen.granules * GRANULE)
        heap = self.buckets.segment(seen.segment)
        try:
            self.region.pool._native.get_each([(self.region.native, 8 * number, word), (heap.native, seen.place * GRANULE, raw)])
        except Error:
            # A batch is not repeated with the grants of today, as single reads are.
            return self.word(number), None
        return Word.read(int.from_bytes(word, "little")), bytes(raw)

    def note(self, number: int, word: Word) -> None:
        """Remember a word, where that spares a message."""
        if self._is_here:
            return
        if len(self._seen) >= _SEEN_COUNT_MAX:
            self._seen.clear()
        if word.place and word.granules < 0xFFF and self.buckets.node(word.segment) == self._node is not None:
            self._seen[number] = word
        else:
            self._seen.pop(number, None)

    def words(self) -> Words:
        into = np.empty(self.count, np.uint64)
        self.region.native.get((0, into.nbytes, []), into)
        return into

    def freeze(self) -> Words:
        """Have no swap of a word succeed any more; return the words."""
        olds = np.empty(self.count, np.uint64)
        self.region.native.update(self._all(), "u64", "or", np.array([_FROZEN], np.uint64), olds)
        return olds

    def thaw(self) -> None:
        """Take that back."""
        self.region.native.update(self._all(), "u64", "and", np.array([_FROZEN - 1], np.uint64))

    def _all(self) -> tuple[int, int, list[tuple[int, int]]]:
        return 0, 8, [(self.count, 8)]

    def bucket(self, number: int, word: Word, raw: bytes | None = None) -> list[Entry]:
        """The entries of a bucket, of which `raw` was read. **Errors**: `Changed` where it is another's memory by now."""
        if not word.place:
            return []
        if raw is None:
            raw = self.buckets.read(word.segment, word.place, word.granules * GRANULE if word.granules < 0xFFF else _BUCKET.size)
        whole, count, where, tag, _, checksum = _BUCKET.unpack_from(raw)
        if (where, tag) != (number, word.tag) or whole < _BUCKET.size:
            raise Changed
        if whole > len(raw):
            raw = self.buckets.read(word.segment, word.place, whole)
        if zlib.crc32(raw[_BUCKET.size : whole]) != checksum:
            raise Changed
        entries, begin = [], _BUCKET.size
        for _ in range(count):
            _, key_len, value_len, far, kind, value_sum = _ENTRY.unpack_from(raw, begin)
            begin += _ENTRY.size
            key = raw[begin : begin + key_len]
            begin += key_len
            value = b"" if far else raw[begin : begin + value_len]
            begin += len(value)
            entries.append(Entry(key, value, value_len, far, kind, value_sum))
        return entries

    def write(self, number: int, tag: int, entries: list[Entry], may_grow: bool = True) -> Word:
        """Write a bucket; return the word that leads to it. **Errors**: `Full`."""
        fresh, data = self._prepare(number, tag, entries, may_grow)
        if data:
            self.buckets.put((fresh.segment, fresh.place), [data])
        return fresh

    def replace(self, number: int, word: Word, entries: list[Entry], may_grow: bool = True) -> tuple[Word, bool]:
        """Put a bucket in another's place; return the word that leads to it, and whether nobody was faster.

        One message does both where one node has both. A reader may find the word before the bucket then; the bucket's checksum tells.

        Raises
        ------
        Full
        """
        fresh, data = self._prepare(number, (word.tag + 1) & 0x7FFF, entries, may_grow)
        swap = self.region.native, 8 * number, word.write(), fresh.write()
        if data and not self._is_here and self.buckets.node(fresh.segment) == self._node is not None:
            place = self.buckets.segment(fresh.segment).native, fresh.place * GRANULE, data
            try:
                return fresh, self.region.pool._native.put_and_swap(place, *swap) == swap[2]
            except GrantRefused:
                # Nothing was done. A batch is not repeated with the grants of today, as single commands are.
                pass
        if data:
            self.buckets.put((fresh.segment, fresh.place), [data])
        return fresh, self.region.native.compare_and_swap_word(*swap[1:]) == swap[2]

    def _prepare(self, number: int, tag: int, entries: list[Entry], may_grow: bool) -> tuple[Word, bytes]:
        """Take a block for a bucket; return the word that is to lead to it, and its bytes. **Errors**: `Full`."""
        if not entries:
            return Word(False, tag, 0, 0, 0), b""
        parts = []
        for entry in entries:
            parts += [_ENTRY.pack(hash_of(entry.key), len(entry.key), entry.length, entry.far, entry.kind, entry.checksum), entry.key, entry.value]
        body = b"".join(parts)
        data = _BUCKET.pack(_BUCKET.size + len(body), len(entries), number, tag, 0, zlib.crc32(body)) + body
        data += bytes(-len(data) % GRANULE)
        segment, place = self.buckets.take(len(data), may_grow)
        return Word(False, tag, segment, len(data) // GRANULE, place), data

    def read_value(self, entry: Entry) -> bytes:
        return self.values.read(entry.far >> 32, entry.far & 0xFFFF_FFFF, entry.length) if entry.far else entry.value

    def read_value_into(self, entry: Entry, into: Any) -> None:
        """Read a value that is far into a buffer. **Errors**: `Changed`."""
        self.values.read_into(entry.far >> 32, entry.far & 0xFFFF_FFFF, into)

    def hold(self, number: int, word: Word, entry: Entry) -> memoryview | None:
        """The bytes of a value that is far, in place and read-only, held as long as there is a reference to them; ``None`` on another host.

        Raises
        ------
        Changed
            The word no longer leads to it.
        """
        block = self.values.hold(entry.far >> 32, entry.far & 0xFFFF_FFFF, entry.length)
        code = word.write()
        # In one step, so that it comes after the count for everybody.
        if block is not None and self.region.native.compare_and_swap_word(8 * number, code, code) != code:
            raise Changed
        return memoryview(block).toreadonly() if block is not None else None

    def write_value(self, parts: list[Any], may_grow: bool = True) -> int:
        at = self.values.take(sum(map(len, parts)), may_grow)
        self.values.put(at, parts)
        return at[0] << 32 | at[1]

    def free_value(self, entry: Entry | None) -> None:
        if entry is not None and entry.far:
            self.values.free(entry.far >> 32, entry.far & 0xFFFF_FFFF, rounded(entry.length))

    def size_of(self, word: Word, entries: list[Entry]) -> int:
        """Bytes of the block that a word leads to."""
        if word.granules < 0xFFF:
            return word.granules * GRANULE
        return rounded(_BUCKET.size + sum(_ENTRY.size + len(each.key) + len(each.value) for each in entries))

    def is_crowded(self) -> bool:
        """Whether there are two keys or more to a word, as far as a few words tell."""
        count = min(_SAMPLE_COUNT, self.count)
        words = np.empty(count, np.uint64)
        self.region.native.get((8 * random.randrange(self.count - count + 1), words.nbytes, []), words)
        return int((words & np.uint64(PLACE) != 0).sum()) >= _CROWDED * count
