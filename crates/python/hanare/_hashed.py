"""A table of a dictionary, with the heaps that it leads to, as this process has it open."""

from __future__ import annotations

import random
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _hanare, pool
from ._hanare import GRANULE, PLACE, Changed
from .errors import Error
from .pool import Region

#: Words that are looked at to see whether a table is crowded, and the part of them in use from which it is: two keys to a word.
_SAMPLE_COUNT, _CROWDED = 64, 0.85
_FROZEN = 1 << 63

Words = npt.NDArray[np.uint64]


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
    """A key's entry: the value itself, or where it lies and its checksum."""

    key: bytes
    kind: int
    value: bytes
    length: int
    far: int
    checksum: int


def is_frozen(word: int) -> bool:
    """Whether a word never changes again."""
    return word >= _FROZEN


class Hashed:
    """A table of words, and the heaps that they lead to."""

    def __init__(self, root: Root, region: Region, seed: int, buckets: _hanare.Blocks, values: _hanare.Blocks) -> None:
        self.root, self.region, self.buckets, self.values = root, region, buckets, values
        self.native = _hanare.Table(region.pool._native, region.native, seed, buckets, values)
        self.count, self.generation = self.native.count, pool._generation
        self._writers = region.pool._native.writers_of(region.native)
        # What the heaps keep for this program's writes goes back with the last reference, or at the program's end.
        weakref.finalize(self, _give_back, buckets, values)

    def writers(self, which: int) -> bool:
        """Of table and heaps that are open: 0 is whether none but this user may have written them, 1 none but users that are trusted."""
        return self._writers[which] and self.buckets.writers[which] and self.values.writers[which]

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

    def entries(self, number: int, word: int) -> list[Entry]:
        """The entries of a bucket. **Errors**: `Changed` where it is another's memory by now."""
        return [Entry._make(entry) for entry in self.native.entries(number, word)]

    def hold(self, number: int, word: int, entry: Entry) -> memoryview | None:
        """The bytes of a value that is far, in place and read-only, held as long as there is a reference to them; ``None`` on another host.

        Raises
        ------
        Changed
            There is no such block, or the word no longer leads to it.
        """
        region = Region(self.region.pool, self.values.segment(entry.far), None)
        view: Any = self.region.pool._view(region) if region.is_local else None
        if view is None or not region.writable:
            return None
        place = entry.far & 0xFFFF_FFFF
        if place * GRANULE + entry.length > region.nbytes:
            raise Changed
        block: Any = np.frombuffer(view, np.uint8, entry.length, place * GRANULE)
        region.add(_count_at(place), 1)
        weakref.finalize(block, _let_go, region, place, pool._generation)
        # In one step, so that it comes after the count for everybody.
        if self.region.native.compare_and_swap_word(8 * number, word, word) != word:
            raise Changed
        return memoryview(block).toreadonly()

    def is_crowded(self) -> bool:
        """Whether there are two keys or more to a word, as far as a few words tell."""
        count = min(_SAMPLE_COUNT, self.count)
        words = np.empty(count, np.uint64)
        self.region.native.get((8 * random.randrange(self.count - count + 1), words.nbytes, []), words)
        return int((words & np.uint64(PLACE) != 0).sum()) >= _CROWDED * count


def _give_back(buckets: _hanare.Blocks, values: _hanare.Blocks) -> None:
    buckets.give_back()
    values.give_back()


def _count_at(place: int) -> int:
    """Where the count is of who holds a block."""
    return 8 * (place % 8)


def _let_go(region: Region, place: int, generation: int) -> None:
    """Hold a block no more. A child made by fork never held it: its parent does."""
    if generation == pool._generation:
        try:
            region.add(_count_at(place), -1)
        except (Error, ConnectionError):
            # The heap has gone, with its counts.
            return
