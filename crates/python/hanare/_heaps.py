"""Blocks of bytes in heaps of the pool: one region after another, each twice as long as that before it.

A heap's first 64 bytes are counts of *holds*: how many programs of its host read blocks in place. A block's place says which count is its,
one of eight. Who is about to give a block back looks at the count after the last word that led there is gone; who holds one looks at the word
after it has counted. So one of both sees the other, and a block that is held is not given back before it is let go. A program that is killed
never lets go: what it keeps from coming back is linked by nobody, and goes with the heap when a sweep makes the values anew.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from . import pool
from .errors import BadLength, Error, HeapFull, LimitReached, UnknownRegion
from .pool import Pool, Region

#: Heaps in a row: the last is as long as all before it together.
SEGMENT_COUNT_MAX = 64
#: Blocks lie at multiples of so many bytes, and have such lengths.
GRANULE = 64
#: Blocks of up to so many bytes that were given back are kept for this program's next writes, so many of each length: 266,240 bytes in all.
_KEPT_LEN_MAX, _KEPT_COUNT = 4096, 2
#: Blocks of at least so many bytes can be held; shorter ones are copied in less time than it takes.
VIEWED_LEN_MIN = 64 << 10
#: Blocks that others hold and that this program is to give back, at most; what is more a sweep gives back.
_HELD_COUNT_MAX = 64


def rounded(length: int) -> int:
    """Bytes that a block of that length takes."""
    return -(-length // GRANULE) * GRANULE


def node_of(region: Region) -> int | None:
    """The node that has all bytes of a region, if there is one."""
    nodes = {node for node, _ in region.native.extents()}
    return nodes.pop() if len(nodes) == 1 else None


class Changed(Exception):
    """Bytes were another's by the time they were read."""


class Full(Exception):
    """No heap that is there has room."""


class _Kept:
    """Blocks of this process that nobody links: a write that takes one saves two messages, one to take a block and one to give another back.

    A block may be written again at once, because readers check that they read the block that they were led to. A child made by fork has
    none of its parent's.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        self._held: list[tuple[int, int]] = []
        self._generation = pool._generation

    def _here(self) -> dict[int, list[tuple[int, int]]]:
        if self._generation != pool._generation:
            self._blocks, self._held, self._generation = {}, [], pool._generation
        return self._blocks

    def keep(self, at: tuple[int, int], length: int) -> bool:
        """Keep a block of that many bytes; say whether there was room for it."""
        if length > _KEPT_LEN_MAX:
            return False
        blocks = self._here().setdefault(length, [])
        if len(blocks) >= _KEPT_COUNT:
            return False
        blocks.append(at)
        return True

    def take(self, length: int) -> tuple[int, int] | None:
        """Take a block of that many bytes, if there is one."""
        try:
            return self._here()[length].pop()
        except (KeyError, IndexError):
            return None

    def give_back_long(self, segments: list[Region], at: tuple[int, int] | None = None) -> None:
        """Give long blocks back that nobody holds, and that one; the others later."""
        self._here()
        blocks, self._held = self._held + ([at] if at is not None else []), []
        for at in blocks:
            if not _is_held(segments[at[0]], at[1]):
                segments[at[0]].native.free(at[1] * GRANULE)
            elif len(self._held) < _HELD_COUNT_MAX:
                self._held.append(at)

    def give_back(self, segments: list[Region]) -> bool:
        """Give all of them back to their heaps; say whether there were any."""
        there_were = False
        try:
            self.give_back_long(segments)
        except (Error, ConnectionError):
            pass
        for length in list(self._here()):
            while (at := self.take(length)) is not None:
                there_were = True
                try:
                    segments[at[0]].native.free(at[1] * GRANULE)
                except (Error, ConnectionError):
                    # The heap has gone, or its node is lost: a later one would say the same, as late.
                    self._blocks.clear()
        return there_were


def _count_at(place: int) -> int:
    """Where the count is of who holds a block."""
    return 8 * (place % 8)


def _is_held(region: Region, place: int) -> bool:
    return region.add(_count_at(place), 0) != 0


def _let_go(region: Region, place: int, generation: int) -> None:
    """Hold a block no more. A child made by fork never held it: its parent does."""
    if generation == pool._generation:
        try:
            region.add(_count_at(place), -1)
        except (Error, ConnectionError):
            # The heap has gone, with its counts.
            return


class Heaps:
    """Heaps ``PREFIX.0``, ``PREFIX.1`` ..., for any number of programs.

    Parameters
    ----------
    pool : Pool
        The pool.
    prefix : str
        Their names but for the number.
    place : str
        Where their bytes go.
    memory : int
        Bytes of the first.
    attributes : dict
        What is kept with their names.
    """

    def __init__(self, pool: Pool, prefix: str, place: str, memory: int, attributes: dict[str, bytes]) -> None:
        self._pool, self.prefix, self._place, self.memory, self._attributes = pool, prefix, place, memory, attributes
        self._segments: list[Region] = []
        self._nodes: list[int | None] = []
        self._kept = _Kept()
        # With the last reference, or at the program's end.
        weakref.finalize(self, self._kept.give_back, self._segments)

    def segment(self, number: int) -> Region:
        """The heap of that number. **Errors**: `UnknownRegion`."""
        while len(self._segments) <= number:
            self._segments.append(self._pool.region(f"{self.prefix}.{len(self._segments)}"))
        return self._segments[number]

    def node(self, number: int) -> int | None:
        """The node that has all of the heap of that number. **Errors**: `UnknownRegion`."""
        while len(self._nodes) <= number:
            self._nodes.append(node_of(self.segment(len(self._nodes))))
        return self._nodes[number]

    def _all(self) -> list[Region]:
        """The heaps that are there, whoever made them."""
        try:
            while len(self._segments) < SEGMENT_COUNT_MAX:
                self.segment(len(self._segments))
        except UnknownRegion:
            pass
        return self._segments

    def _make(self, number: int, length: int) -> Region:
        name = f"{self.prefix}.{number}"
        try:
            return Region(self._pool, self._pool._native.create(name, length, self._place, 0o600, True, self._attributes), None)
        except BadLength:
            # Another program made it, for another block.
            return self._pool.region(name)

    def take(self, length: int, may_grow: bool) -> tuple[int, int]:
        """Take a block: its heap's number, and its place in granules.

        Raises
        ------
        Full
            No heap has room, and none may be made.
        LimitReached, PoolFull, QuotaExceeded
        """
        kept = self._kept.take(rounded(length))
        if kept is not None:
            return kept
        known = len(self._segments)
        # The newest first: it is the largest, and the last that was full.
        for number in (*reversed(range(known)), *range(known, SEGMENT_COUNT_MAX)):
            if number >= known and number >= len(self._all()):
                if self._kept.give_back(self._segments):
                    return self.take(length, may_grow)
                # Who has none begins with one.
                if not may_grow and number:
                    raise Full
                self._segments.append(self._make(number, max(self.memory << number, 2 * length + 4096)))
            try:
                return number, self._segments[number].native.allocate(length) // GRANULE
            except (HeapFull, LimitReached):
                continue
        raise LimitReached(f"'{self.prefix}' has {SEGMENT_COUNT_MAX} heaps, and all are full")

    def put(self, at: tuple[int, int], parts: list[Any]) -> None:
        """Write a block, in parts that follow each other."""
        native, offset, puts = self.segment(at[0]).native, at[1] * GRANULE, []
        if len(parts) == 1:
            return native.put((offset, len(parts[0]), []), parts[0])
        for part in parts:
            puts.append((native, offset, part))
            offset += len(part)
        self._pool._native.put_each(puts)

    def hold(self, segment: int, place: int, length: int) -> Any:
        """The bytes of a block in place, an array of them held until its last reference goes; ``None`` where they are not on this host.

        The caller then looks whether the word that led to the block is still there.

        Raises
        ------
        Changed
            There is no such block.
        """
        region = self.segment(segment)
        view: Any = self._pool._view(region) if region.is_local else None
        if view is None or not region.writable:
            return None
        if place * GRANULE + length > region.nbytes:
            raise Changed
        block = np.frombuffer(view, np.uint8, length, place * GRANULE)
        region.add(_count_at(place), 1)
        weakref.finalize(block, _let_go, region, place, pool._generation)
        return block

    def free(self, segment: int, place: int, length: int) -> None:
        """Give a block of so many bytes back, or keep it for a write of this program; nothing where there is none, or the heap has gone."""
        if not place:
            return
        try:
            # A value may be replaced that this program never read.
            heap = self.segment(segment)
            if length >= VIEWED_LEN_MIN:
                self._kept.give_back_long(self._segments, (segment, place))
            elif not self._kept.keep((segment, place), length):
                heap.native.free(place * GRANULE)
        except (Error, ConnectionError):
            # A sweep was faster, or its node is lost: either way nobody has the block any more.
            return

    def read(self, segment: int, place: int, length: int) -> bytes:
        """Read bytes of a block. **Errors**: `Changed` where there cannot be any."""
        region = self.segment(segment)
        begin = place * GRANULE
        if begin + length > region.nbytes:
            raise Changed
        return region.native.get_bytes(begin, length)

    def read_into(self, segment: int, place: int, into: Any) -> None:
        """Read bytes of a block into a buffer. **Errors**: `Changed` where there cannot be any."""
        region = self.segment(segment)
        if place * GRANULE + len(into) > region.nbytes:
            raise Changed
        region.get_into(place * GRANULE, into)

    def taken(self) -> int:
        """Bytes of all blocks that somebody took and did not give back; this program gives back first what it keeps."""
        self._kept.give_back(self._segments)
        total = 0
        for region in self._all():
            try:
                # The first granule is never given out, so this is refused, and says how much is free.
                region.native.free(region.native.allocate(region.nbytes))
            except HeapFull as full:
                total += region.nbytes - GRANULE - int(getattr(full, "free"))
        return total

    def capacity(self) -> int:
        """Bytes of all heaps."""
        return sum(region.nbytes for region in self._all())
