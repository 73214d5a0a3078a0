"""Blocks of bytes in heaps of the pool: one region after another, each twice as long as that before it."""

from __future__ import annotations

from .errors import BadLength, Error, HeapFull, LimitReached, UnknownRegion
from .pool import Pool, Region

#: Heaps in a row: the last is as long as all before it together.
SEGMENT_COUNT_MAX = 64
#: Blocks lie at multiples of so many bytes, and have such lengths.
GRANULE = 64


def rounded(length: int) -> int:
    """Bytes that a block of that length takes."""
    return -(-length // GRANULE) * GRANULE


class Changed(Exception):
    """Bytes were another's by the time they were read."""


class Full(Exception):
    """No heap that is there has room."""


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

    def _segment(self, number: int) -> Region:
        while len(self._segments) <= number:
            self._segments.append(self._pool.region(f"{self.prefix}.{len(self._segments)}"))
        return self._segments[number]

    def _all(self) -> list[Region]:
        """The heaps that are there, whoever made them."""
        try:
            while len(self._segments) < SEGMENT_COUNT_MAX:
                self._segment(len(self._segments))
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
        known = len(self._segments)
        # The newest first: it is the largest, and the last that was full.
        for number in (*reversed(range(known)), *range(known, SEGMENT_COUNT_MAX)):
            if number >= known and number >= len(self._all()):
                # Who has none begins with one.
                if not may_grow and number:
                    raise Full
                self._segments.append(self._make(number, max(self.memory << number, 2 * length + 4096)))
            try:
                return number, self._segments[number].native.allocate(length) // GRANULE
            except (HeapFull, LimitReached):
                continue
        raise LimitReached(f"'{self.prefix}' has {SEGMENT_COUNT_MAX} heaps, and all are full")

    def put(self, at: tuple[int, int], data: bytes) -> None:
        """Write a block."""
        self._segment(at[0]).native.put((at[1] * GRANULE, len(data), []), data)

    def free(self, segment: int, place: int) -> None:
        """Give a block back; nothing where there is none, or the heap has gone with all that was in it."""
        if not place:
            return
        try:
            self._segment(segment).native.free(place * GRANULE)
        except (Error, ConnectionError):
            # A sweep was faster, or its node is lost: either way nobody has the block any more.
            return

    def read(self, segment: int, place: int, length: int) -> bytes:
        """Read bytes of a block. **Errors**: `Changed` where there cannot be any."""
        into = bytearray(length)
        region = self._segment(segment)
        begin = place * GRANULE
        if begin + length > region.nbytes:
            raise Changed
        region.native.get((begin, length, []), into)
        return bytes(into)

    def taken(self) -> int:
        """Bytes of all blocks that somebody took."""
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
