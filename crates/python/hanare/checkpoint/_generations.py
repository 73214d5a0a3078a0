"""Generations of a checkpoint: how one begins, becomes the newest in one step, is found again, and goes.

A checkpoint ``NAME`` is a region of that name, its *head*, and for each generation the regions ``NAME#GENERATION.PART`` with shards and
``NAME#GENERATION.index``::

    head: | generations begun so far, 8 bytes | nothing | the newest, 8 bytes |
    the newest: generation, 40 bits | checksum of it, 24 bits

A save takes a number of its own, writes its shards, then its index, and then swaps the word of the newest. Whoever dies before the swap has saved
nothing. Two that save at the same time have two numbers: the greater one stays.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from .. import _hanare
from .._trust import Trusted, trusting
from ..errors import (
    BadAttributes,
    BadIndex,
    DamagedCheckpoint,
    Error,
    NodeLost,
    NoCheckpoint,
    OlderCheckpointWarning,
    OutOfRange,
    PageLost,
    RegionLost,
    Superseded,
    UnknownRegion,
)
from ..pool import Pool, Region
from ._index import Index, read_index
from ._shards import Damaged, PartReader, PartWriter, Shard, reason

#: The attribute by which a region says that it is the head of a checkpoint.
_ATTRIBUTE = "hanare.checkpoint"
_HEAD_LEN = 4096
#: Words of the head, in lines of their own.
_BEGUN, _NEWEST = 0, 128
_GENERATION_MAX = (1 << 40) - 1
_CHECK_LEN = 3
#: How often a word is read that is no newest one: it may have been in the middle of a swap.
_READ_COUNT_MAX = 3
#: How often a load begins again because a newer generation was saved meanwhile.
_START_COUNT_MAX = 8
#: Errors after which an older generation helps. Others, as of a coordinator that is away, may be over at the next call.
_GONE = (Damaged, UnknownRegion, RegionLost, NodeLost, PageLost, OutOfRange, BadIndex)


def _word_of(generation: int) -> int:
    check = blake2b(generation.to_bytes(8, "little"), digest_size=_CHECK_LEN, person=_ATTRIBUTE.encode()[:16]).digest()
    return generation << 8 * _CHECK_LEN | int.from_bytes(check, "little")


def _generation_of(word: int) -> int | None:
    generation = word >> 8 * _CHECK_LEN
    return generation if generation > 0 and _word_of(generation) == word else None


class Generations:
    """The generations of one checkpoint.

    Parameters
    ----------
    pool : Pool, optional
        The pool; by default that of `connect`.
    name : str
        The checkpoint's name: that of a region, without ``#``.
    trust : int, str, or several of them, optional
        Users whose regions are believed in, beside this program's own.
    """

    def __init__(self, pool: Pool | None, name: str, trust: Trusted) -> None:
        if "#" in name:
            raise ValueError(f"the name of a checkpoint has no '#', which stands before the numbers of its generations: '{name}'")
        self.pool, self.name = trusting(pool, trust), name

    # Names

    def _region_name(self, generation: int, part: int | str) -> str:
        return f"{self.name}#{generation}.{part}"

    def _all(self) -> dict[int, list[str]]:
        """Return the names of all regions by their generations."""
        form = re.compile(re.escape(self.name) + r"#([0-9]{1,13})\.(?:[0-9]{1,13}|index)")
        found: dict[int, list[str]] = {}
        for (name, *_) in self.pool.ls(self.name + "#").rows:
            if match := form.fullmatch(name):
                found.setdefault(int(match[1]), []).append(name)
        return found

    def _open(self, name: str) -> Region:
        return Region(self.pool, self.pool._native.open_trusted(name), None)

    def _made(self, name: str, nbytes: int, place: str, mode: int, copies: int) -> Region:
        return Region(self.pool, self.pool._native.create(name, nbytes, place, mode, False, {}, copies), "w")

    # Head

    def _head(self) -> Region:
        try:
            region = self._open(self.name)
        except UnknownRegion:
            raise NoCheckpoint(f"there is no checkpoint '{self.name}'; hanare.checkpoint.save makes one") from None
        self._must_be_head(region.native)
        return region

    def _must_be_head(self, native: _hanare.Region) -> None:
        if native.attributes().get(_ATTRIBUTE) != b"1" or native.len != _HEAD_LEN:
            raise BadAttributes(f"region '{self.name}' is no checkpoint; choose another name")

    def _head_made(self, place: str, mode: int, copies: int) -> Region:
        try:
            return self._head()
        except NoCheckpoint:
            native = self.pool._native.create(self.name, _HEAD_LEN, place, mode, True, {_ATTRIBUTE: b"1"}, copies)
        self._must_be_head(native)
        return Region(self.pool, native, "w")

    def _newest(self, head: Region) -> tuple[int, int | None]:
        """Return the word of the newest generation, and the generation: 0 where none was saved, `None` where the word makes no sense."""
        for _ in range(_READ_COUNT_MAX):
            word = int.from_bytes(head.get(_NEWEST, 8), "little")
            generation = 0 if word == 0 else _generation_of(word)
            if generation is not None:
                break
        return word, generation

    # Save

    def begin(self, place: str, mode: int, copies: int) -> int:
        """Take a number that no other generation has or had. Makes the checkpoint's head where there is none."""
        head = self._head_made(place, mode, copies)
        used = max(self._all(), default=0)
        while True:
            number = head.add(_BEGUN, 1) + 1
            floor = max(used, self._newest(head)[1] or 0)
            if floor < number <= _GENERATION_MAX:
                return number
            # The count was damaged. Regions and the newest generation say how far it was at least.
            head.compare_and_swap(_BEGUN, number, floor)

    def part(self, generation: int, part: int, nbytes: int, place: str, mode: int, copies: int) -> PartWriter:
        """Make the region for the shards of one program."""
        return PartWriter(self._made(self._region_name(generation, part), nbytes, place, mode, copies), part)

    def commit(self, generation: int, index: Index, place: str, mode: int, copies: int, keep: int) -> None:
        """Make a generation the newest, in one step, and remove all but `keep`.

        Raises
        ------
        Superseded
            Another program has saved a newer generation meanwhile.
        """
        written, head = index.to_bytes(), self._head()
        self._made(self._region_name(generation, "index"), len(written), place, mode, copies).put(0, written)
        own = _word_of(generation)
        while True:
            word, newest = self._newest(head)
            self._must_be_newer(generation, newest)
            if self._swap(head, word, own):
                break
        self._remove_old(generation, keep)

    def _swap(self, head: Region, word: int, own: int) -> bool:
        try:
            return head.compare_and_swap(_NEWEST, word, own) == word
        except Error:
            # The answer is lost. The word says whether the swap is.
            if self._newest(head)[0] == own:
                return True
            raise

    def _remove_old(self, generation: int, keep: int) -> None:
        """Remove generations before this one: all but the newest `keep` - 1 whose index is whole. The next save removes what stays here."""
        for number, names in sorted(self._all().items(), reverse=True):
            if number >= generation:
                continue
            try:
                if keep > 1 and self.index(number):
                    keep -= 1
                    continue
            except (Damaged, UnknownRegion, RegionLost, NodeLost, PageLost):
                pass
            except Error:
                continue
            self._remove(names)

    def give_up(self, generation: int) -> None:
        """Remove a generation that was not finished, as far as that can be done now. A later save removes the rest.

        Raises
        ------
        Superseded
            Another program has saved a newer generation, and removed this one under way.
        """
        newest = None
        try:
            newest = self._newest(self._head())[1]
            if newest != generation:
                self._remove(self._all().get(generation, []))
        except Error:
            pass
        self._must_be_newer(generation, newest)

    def _must_be_newer(self, generation: int, newest: int | None) -> None:
        if newest is not None and newest > generation:
            raise Superseded(f"checkpoint '{self.name}': generation {newest} was saved while {generation} was; load that one")

    def _remove(self, names: list[str]) -> None:
        # Without its index a generation counts no more, whatever becomes of its shards.
        for name in sorted(names, key=lambda name: not name.endswith(".index")):
            try:
                self.pool.remove(name)
            except Error:
                pass

    # Load

    def index(self, generation: int) -> Index:
        """Read the index of a generation. **Errors**: `Damaged`, `UnknownRegion`, and those of `Region.get`."""
        return read_index(self._open(self._region_name(generation, "index")))

    def reader(self, generation: int, shards: list[Shard]) -> PartReader:
        """Open the regions of those shards."""
        return PartReader({part: self._open(self._region_name(generation, part)) for part in {shard.part for shard in shards}})

    def is_trusted(self, generation: int) -> bool:
        """Whether none but users that are trusted may have written the index and the shards of a generation."""
        names = self._all().get(generation, [])
        return all(self.pool._native.writers_of(self._open(name).native)[1] for name in names)

    def _numbers(self) -> tuple[int, list[int], list[str]]:
        """Return the word of the newest generation, the numbers to try in their order, and what is wrong so far."""
        word, newest = self._newest(self._head())
        if newest == 0:
            raise NoCheckpoint(f"nothing was saved to checkpoint '{self.name}' yet")
        older = sorted((number for number in self._all() if newest is None or number < newest), reverse=True)
        return (word, older, [f"its head names no generation ({word:#x})"]) if newest is None else (word, [newest, *older], [])

    def choose(self, check: Callable[[int], str], agree: Callable[[Callable[[], Any]], Any] = lambda work: work()) -> int:
        """Return the newest generation that is whole, and warn where newer ones are not.

        Parameters
        ----------
        check : callable
            Says of a number in words why that generation cannot be used; ``""`` where it can.
        agree : callable
            Returns what a call returns, the same in all programs that load together.

        Raises
        ------
        NoCheckpoint
            Nothing was saved.
        DamagedCheckpoint
            No generation is whole.
        """
        for _ in range(_START_COUNT_MAX):
            word, numbers, wrong = agree(self._numbers)
            for number in numbers:
                if not (why := check(number)):
                    self._tell(number, wrong)
                    return number
                wrong.append(f"generation {number}: {why}")
                if agree(self._numbers)[0] != word:
                    # A newer one was saved meanwhile, and this one removed.
                    break
            else:
                break
        raise DamagedCheckpoint(f"no generation of checkpoint '{self.name}' is whole: {'; '.join(wrong)}; save it again, or restore another")

    def _tell(self, number: int, wrong: list[str]) -> None:
        if wrong:
            told = f"checkpoint '{self.name}': generation {number} is loaded in place of a newer one ({'; '.join(wrong)})"
            warnings.warn(OlderCheckpointWarning(told), stacklevel=4)


def why_not(work: Callable[[], object]) -> str:
    """Return in words why something of a generation cannot be read; ``""`` where it can."""
    try:
        work()
    except _GONE as error:
        return reason(error)
    return ""
