"""Bytes of a generation in regions, each shard with its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import Error
from ..pool import Region

#: Bytes of a checksum.
DIGEST_LEN = 32
#: Shards begin at multiples of so many bytes.
_ALIGN = 64
#: Bytes that a check reads at a time.
_STEP_LEN = 16 << 20

Bytes = npt.NDArray[np.uint8]


class Damaged(Exception):
    """Something of a generation is not as it was saved, or not there; the message is for the user."""


def digest(data: Any) -> bytes:
    """Return the checksum of a buffer."""
    return blake2b(data, digest_size=DIGEST_LEN).digest()


@dataclass(frozen=True)
class Shard:
    """Where the bytes of one array, or of a part of one, are: in which region of the generation, from which byte on, with which checksum."""

    part: int
    offset: int
    nbytes: int
    digest: str

    def to_json(self) -> list[Any]:
        """Return it as a list for the index."""
        return [self.part, self.offset, self.nbytes, self.digest]

    @staticmethod
    def from_json(told: Any) -> Shard:
        """Return what a list of the index says. **Errors**: `ValueError`."""
        if not isinstance(told, list) or len(told) != 4:
            raise ValueError("a shard has four terms")
        part, offset, nbytes, written = told
        numbers = [part, offset, nbytes]
        if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or type(written) is not str:
            raise ValueError(f"{told} is no shard")
        return Shard(part, offset, nbytes, written)


def region_len(lengths: Iterator[int]) -> int:
    """Return the bytes of a region that takes shards of those lengths, in that order."""
    end = 0
    for length in lengths:
        end = -(-end // _ALIGN) * _ALIGN + length
    return max(end, 1)


class PartWriter:
    """Writes the shards of one program one after another into its region.

    A shard's checksum is that of the caller's bytes, before any of them has travelled.
    """

    def __init__(self, region: Region, part: int) -> None:
        self._region, self._part, self._end = region, part, 0

    def add(self, data: Bytes) -> Shard:
        """Write a shard; returns when its bytes are at all nodes that hold them."""
        offset = -(-self._end // _ALIGN) * _ALIGN
        shard = Shard(self._part, offset, data.nbytes, digest(data).hex())
        if data.nbytes:
            self._region.put(offset, data)
        self._end = offset + data.nbytes
        return shard


class PartReader:
    """Reads shards of one generation, and believes none whose checksum is another."""

    def __init__(self, regions: dict[int, Region]) -> None:
        self._regions = regions

    def _within(self, shard: Shard) -> Region:
        region = self._regions[shard.part]
        if shard.offset + shard.nbytes > region.nbytes:
            raise Damaged(f"region '{region.name}' is shorter than its index says")
        return region

    def _must_be(self, shard: Shard, found: str) -> None:
        if found != shard.digest:
            region = self._regions[shard.part]
            where = f"{shard.nbytes} bytes at {shard.offset} of region '{region.name}'"
            raise Damaged(f"{where} have another checksum than when they were saved")

    def read(self, shard: Shard) -> Bytes:
        """Return a shard's bytes. **Errors**: `Damaged`, and those of `Region.get_into`."""
        region = self._within(shard)
        data = np.empty(shard.nbytes, np.uint8)
        if shard.nbytes:
            region.get_into(shard.offset, data)
        self._must_be(shard, digest(data).hex())
        return data

    def check(self, shard: Shard) -> None:
        """Compare a shard with its checksum, some bytes at a time. **Errors**: as for `read`."""
        region = self._within(shard)
        step, seen = np.empty(min(shard.nbytes, _STEP_LEN), np.uint8), blake2b(digest_size=DIGEST_LEN)
        for begin in range(0, shard.nbytes, _STEP_LEN):
            piece = step[: min(_STEP_LEN, shard.nbytes - begin)]
            region.get_into(shard.offset + begin, piece)
            seen.update(piece.data)
        self._must_be(shard, seen.hexdigest())


def reason(error: Exception) -> str:
    """Return in words why a generation cannot be used."""
    return str(error) if isinstance(error, (Damaged, Error)) else f"{type(error).__name__}: {error}"
