"""Pages by hash, for key-value caches of LLM servers: a batch of pages goes to or from the caller's buffers without a copy.

A cache is one region, as a cache of a processor is built: a key's hash leads to a *set* of a few slots, and a slot is an entry and the
page that belongs to it. There is no server, and no message but those that move the bytes.

::

    | head: writers so far | entry entry entry ... | page page page ...
    entry: state | hash, 16 bytes | last use, ms | bytes of the page | nothing
    state: changes, 47 bits | writer, 16 bits | whether it is claimed

A writer claims a slot by swapping its state, writes page and entry, and swaps the state again. A reader that finds another state after it
has read the page than before takes the page for absent. A slot whose writer died is claimed by the next who needs one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ._trust import Trusted, named, trusting
from .errors import BadAttributes, NameTaken
from .pool import Pool, Region
from .sync import Lock

__all__ = ["PageCache"]

#: The attribute by which a region says that it is such a cache.
_ATTRIBUTE = "hanare.kv"
_HEAD_LEN = 4096
#: Words of an entry: a cache line.
_WORDS = 8
_STATE, _HASH, _USED, _LEN = 0, 1, 3, 4
_ENTRY_LEN = 8 * _WORDS
#: Slots of a set: 512 bytes, one block of an index list.
_WAYS = 8
#: A use is written down when the one before is older: below, the order of eviction gains nothing.
_USED_MS = 1000
#: A claim of a dead writer is taken over when it was seen so long ago: its last bytes are there, or never come.
_CLAIM_S = 1.0
#: How often slots are looked for that others claim at the same time.
_TURN_COUNT_MAX = 4

_Words = npt.NDArray[np.uint64]


def _hash(key: str | bytes | int) -> bytes:
    kind, coded = (b"s", key.encode()) if isinstance(key, str) else (b"b", key) if isinstance(key, bytes) else (b"i", b"%d" % key)
    return blake2b(coded, digest_size=16, person=kind).digest()


def _bytes(buffer: Any) -> npt.NDArray[np.uint8]:
    """A buffer's bytes, without a copy. **Errors**: `ValueError` for one whose bytes do not lie one after another."""
    if not isinstance(buffer, np.ndarray):
        return np.frombuffer(buffer, np.uint8)
    if not buffer.flags.c_contiguous:
        raise ValueError("a page's bytes lie one after another; those of this array do not")
    return buffer.reshape(-1).view(np.uint8)


def _length_of(page: int, sets: int) -> int:
    """Bytes of a cache's region."""
    entries = -(-(_HEAD_LEN + sets * _WAYS * _ENTRY_LEN) // 4096) * 4096
    return entries + sets * _WAYS * (-(-page // 4096) * 4096)


def _terms_of(region: Region) -> tuple[int, int]:
    """Bytes of the longest page, and sets, as the region's attribute says them. **Errors**: `BadAttributes`."""
    written = region.native.attributes().get(_ATTRIBUTE)
    if written is None:
        raise BadAttributes(f"region '{region.name}' is no cache of pages")
    found = re.fullmatch(rb"page=([0-9]{1,15}),sets=([0-9]{1,15})", written)
    page, sets = (int(found[1]), int(found[2])) if found else (0, 0)
    if page == 0 or sets == 0 or _length_of(page, sets) > region.nbytes:
        raise BadAttributes(f"region '{region.name}' says of itself what no cache of pages is")
    return page, sets


def _reopen(name: str, trust: tuple[int | str, ...]) -> PageCache:
    """Open what another program has pickled."""
    return PageCache(name, trust=trust)


def _now() -> int:
    return int(time.time() * 1000)


class PageCache:
    """Pages by hash, for any number of programs on all hosts at a time; the longest unused make room for others.

    Parameters
    ----------
    name : str
        Its name; the first to open it makes it.
    pool : Pool, optional
        The pool; by default that of `connect`.
    page : int
        Bytes of the longest page. Where it is made.
    pages : int
        How many it holds, rounded up to a multiple of 8. Where it is made.
    place : str
        Where its bytes go, as for `Pool.array`. Where it is made.
    exist_ok : bool
        Whether one of that name that is there may be opened, whatever it is like.
    trust : int, str, or several of them, optional
        Users, by number or name, whose cache is used too, or ``"anyone"``: pages are their word.

    Raises
    ------
    NotTrusted
        Another user made it.
    NodeLost, RegionLost
        By any call: pages of it went with a node.
    BadAttributes
        A region of that name is no cache.

    Notes
    -----
    Keys are texts, bytes or whole numbers; a key's page never changes, so a put of a key that is there writes nothing. Pages may vanish at any
    time, and never come in part. **Cost** of a batch: two round trips for `exists` and `get` beside the pages, four for `put`; the GIL is
    released. A page is copied by the kernel alone.
    """

    def __init__(
        self,
        name: str,
        *,
        pool: Pool | None = None,
        page: int = 256 << 10,
        pages: int = 1024,
        place: str = "local",
        exist_ok: bool = True,
        trust: Trusted = None,
    ) -> None:
        self.name, self._pool = name, trusting(pool, trust)
        if page <= 0 or pages <= 0:
            raise ValueError("a cache has at least one page of one byte")
        self._region = self._open(page, -(-pages // _WAYS), place, exist_ok)
        self.page_len, self._sets = _terms_of(self._region)
        self._first_page = -(-(_HEAD_LEN + self._sets * _WAYS * _ENTRY_LEN) // 4096) * 4096
        self._step = -(-self.page_len // 4096) * 4096
        self._writer: tuple[int, int, Lock] | None = None
        self._seen: dict[int, tuple[int, float]] = {}

    def _open(self, page: int, sets: int, place: str, exist_ok: bool) -> Region:
        length = _length_of(page, sets)
        terms = {_ATTRIBUTE: f"page={page},sets={sets}".encode()}
        try:
            return Region(self._pool, self._pool._native.create(self.name, length, place, 0o600, False, terms), None)
        except NameTaken:
            if not exist_ok:
                raise
        return Region(self._pool, self._pool._native.open_trusted(self.name), None)

    @property
    def capacity(self) -> int:
        """How many pages it holds."""
        return self._sets * _WAYS

    # Entries.

    def _hashes(self, keys: Sequence[str | bytes | int]) -> _Words:
        return np.frombuffer(b"".join(map(_hash, keys)), "<u8").reshape(-1, 2).astype(np.uint64)

    def _entries(self, sets: npt.NDArray[np.uint64]) -> _Words:
        into = np.empty((len(sets), _WAYS, _WORDS), np.uint64)
        self._region.native.get((_HEAD_LEN, _WAYS * _ENTRY_LEN, _WAYS * _ENTRY_LEN, sets), into)
        return into

    def _words(self, slots: npt.NDArray[np.uint64], word: int) -> tuple[Any, ...]:
        return (_HEAD_LEN + 8 * word, 8, _ENTRY_LEN, slots)

    def _find(self, hashes: _Words) -> tuple[_Words, npt.NDArray[np.bool_], _Words, _Words]:
        """Look keys up: entries of their sets, whether each is there, its slot, its entry."""
        sets = hashes[:, 0] % np.uint64(self._sets)
        entries = self._entries(sets)
        same = (entries[:, :, _HASH] == hashes[:, :1]) & (entries[:, :, _HASH + 1] == hashes[:, 1:]) & (entries[:, :, _LEN] > 0)
        # An entry is memory that others write: what makes no sense is no page.
        same &= entries[:, :, _LEN] <= np.uint64(self.page_len)
        same &= entries[:, :, _STATE] & np.uint64(1) == 0
        way = same.argmax(axis=1)
        slots = sets * np.uint64(_WAYS) + way.astype(np.uint64)
        return entries, same.any(axis=1), slots, entries[np.arange(len(way)), way]

    def _page_at(self, slot: int) -> int:
        return self._first_page + int(slot) * self._step

    def _touch(self, slots: _Words, found: _Words) -> None:
        """Write down that slots were used, where that is not known."""
        now = _now()
        old = slots[found[:, _USED] + np.uint64(_USED_MS) < now]
        if old.size:
            self._region.native.put(self._words(old, _USED), np.full(old.size, now, np.uint64))

    # Batches.

    def exists(self, keys: Sequence[str | bytes | int]) -> list[bool]:
        """Say of each key whether its page is there."""
        if not keys:
            return []
        _, there, slots, found = self._find(self._hashes(keys))
        self._touch(slots[there], found[there])
        return [bool(each) for each in there]

    def prefix(self, keys: Sequence[str | bytes | int]) -> int:
        """Return how many keys, from the first on, have their pages there."""
        there = self.exists(keys)
        return there.index(False) if False in there else len(there)

    def get(self, keys: Sequence[str | bytes | int], into: Sequence[Any]) -> list[int]:
        """Read the page of each key into the buffer of the same place.

        Parameters
        ----------
        keys : sequence of str, bytes or int
            The keys.
        into : sequence of buffers
            Writable and contiguous, of any type, at least as long as the page.

        Returns
        -------
        list of int
            Bytes of each page, 0 where it is not there. A buffer whose page went meanwhile may have other bytes than before.

        Raises
        ------
        ValueError
            Another number of buffers, one that is too short, or two that have bytes in common.
        """
        views = [_bytes(each) for each in into]
        if len(views) != len(keys):
            raise ValueError(f"{len(keys)} keys, and {len(views)} buffers")
        if not views:
            return []
        _, there, slots, found = self._find(self._hashes(keys))
        which = np.flatnonzero(there)
        lengths = found[which, _LEN].astype(np.int64)
        if not which.size:
            return [0] * len(views)
        for at, length in zip(which, lengths):
            if len(views[at]) < length:
                raise ValueError(f"the page of key {keys[int(at)]!r} has {length} bytes, its buffer {len(views[at])}")
        native = self._region.native
        self._pool._native.get_each([(native, self._page_at(slots[at]), views[at][:length]) for at, length in zip(which, lengths)])
        again = np.empty(which.size, np.uint64)
        self._region.native.get(self._words(slots[which], _STATE), again)
        lengths[again != found[which, _STATE]] = 0
        self._touch(slots[which], found[which])
        result = [0] * len(views)
        for at, length in zip(which, lengths):
            result[at] = int(length)
        return result

    def put(self, keys: Sequence[str | bytes | int], pages: Sequence[Any]) -> list[bool]:
        """Write each key's page, unless it is there.

        Returns
        -------
        list of bool
            Whether each page is there now. ``False``: all slots that it could have are being written by others.

        Raises
        ------
        ValueError
            Another number of pages, an empty one, or one longer than `page_len`.
        """
        views = [_bytes(each) for each in pages]
        if len(views) != len(keys):
            raise ValueError(f"{len(keys)} keys, and {len(views)} pages")
        for view in views:
            if not 0 < len(view) <= self.page_len:
                raise ValueError(f"a page of {len(view)} bytes; this cache takes 1 to {self.page_len}")
        if not views:
            return []
        hashes = self._hashes(keys)
        # A key that stands twice in a batch is written once.
        _, first, which = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
        done, kept = np.zeros(len(views), bool), set[int]()
        for _ in range(_TURN_COUNT_MAX):
            left = first[~done[first]]
            if not left.size:
                break
            entries, there, slots, found = self._find(hashes[left])
            self._touch(slots[there], found[there])
            done[left[there]] = True
            # No page of a batch makes room for another.
            kept.update(slots[there].tolist())
            kept.update(self._put_new(left[~there], entries[~there], hashes, views, done, kept))
        return [bool(each) for each in done[first][which.reshape(-1)]]

    def _put_new(
        self, keys: npt.NDArray[Any], entries: _Words, hashes: _Words, views: list[Any], done: npt.NDArray[Any], kept: set[int]
    ) -> list[int]:
        """Write pages that are not there, where slots can be had; say in which slots they are."""
        slots, states, which = self._choose(keys, entries, hashes, kept)
        if not slots.size:
            return []
        me = np.uint64(self._number() << 1 | 1)
        change, claims = np.uint64(1 << 17), np.uint64(0x1FFFF)
        claimed = (states & ~claims) + change | me
        olds = np.empty_like(states)
        self._region.native.compare_and_swap(self._words(slots, _STATE), states, claimed, olds)
        ours = olds == states
        slots, claimed, which = slots[ours], claimed[ours], which[ours]
        if not slots.size:
            return []
        heads = np.zeros((slots.size, _WORDS - 1), np.uint64)
        heads[:, _HASH - 1 : _HASH + 1] = hashes[which]
        heads[:, _USED - 1], heads[:, _LEN - 1] = _now(), [len(views[at]) for at in which]
        places = [_HEAD_LEN + int(slot) * _ENTRY_LEN + 8 for slot in slots] + [self._page_at(slot) for slot in slots]
        native = self._region.native
        self._pool._native.put_each([(native, place, data) for place, data in zip(places, [*heads, *(views[at] for at in which)])])
        self._region.native.compare_and_swap(self._words(slots, _STATE), claimed, (claimed & ~claims) + change, olds[: slots.size])
        # Who was taken for dead finds another's claim.
        is_done = olds[: slots.size] == claimed
        done[which[is_done]] = True
        written: list[int] = slots[is_done].tolist()
        return written

    def _choose(self, keys: npt.NDArray[Any], entries: _Words, hashes: _Words, kept: set[int]) -> tuple[_Words, _Words, npt.NDArray[Any]]:
        """Choose a slot for each key: an empty one, one of a dead writer, or the longest unused. No two get the same."""
        states, used = entries[:, :, _STATE], entries[:, :, _USED].copy()
        used[entries[:, :, _LEN] == 0] = 0
        used[states & np.uint64(1) == 1] = np.iinfo(np.uint64).max
        sets = hashes[keys, 0] % np.uint64(self._sets)
        for row, way in np.argwhere(states & np.uint64(1) == 1):
            slot = int(sets[row]) * _WAYS + int(way)
            if self._is_abandoned(slot, int(states[row, way])):
                used[row, way] = 0
        slots, chosen = [], []
        for row, number in enumerate(sets):
            for way in np.argsort(used[row], kind="stable"):
                slot = int(number) * _WAYS + int(way)
                if used[row, way] != np.iinfo(np.uint64).max and slot not in slots and slot not in kept:
                    slots.append(slot)
                    chosen.append((row, way))
                    break
        rows = np.array([row for row, _ in chosen], np.int64)
        ways = np.array([way for _, way in chosen], np.int64)
        return np.array(slots, np.uint64), states[rows, ways] if chosen else np.empty(0, np.uint64), keys[rows] if chosen else keys[:0]

    # Writers.

    def _number(self) -> int:
        """This program's number as a writer; it has the lock of that number as long as it lives."""
        if self._writer is None or self._writer[0] != os.getpid():
            while True:
                number = self._region.add(0, 1) % 0xFFFF + 1
                lock = self._lock_of(number)
                if lock.acquire(blocking=False):
                    self._writer = os.getpid(), number, lock
                    break
        return self._writer[1]

    def _lock_of(self, number: int) -> Lock:
        return self._pool.lock(f"hanare.kv.{self._region.gid}.{number}")

    def _is_abandoned(self, slot: int, state: int) -> bool:
        """Whether a claim was seen for a while, and its writer has died."""
        number = state >> 1 & 0xFFFF
        known, since = self._seen.get(slot, (None, 0.0))
        if known != state:
            self._seen[slot] = state, time.monotonic()
            return False
        if time.monotonic() - since < _CLAIM_S or (self._writer is not None and number == self._writer[1]):
            return False
        lock = self._lock_of(number)
        if not lock.acquire(blocking=False):
            return False
        lock.release()
        del self._seen[slot]
        return True

    # The whole.

    def stat(self) -> dict[str, int]:
        """Count pages that it holds, that are there, and that are being written."""
        table = np.empty((self.capacity, _WORDS), np.uint64)
        self._region.get_into(_HEAD_LEN, table)
        claimed = table[:, _STATE] & np.uint64(1) == 1
        return {"capacity": self.capacity, "pages": int(((table[:, _LEN] > 0) & ~claimed).sum()), "claimed": int(claimed.sum())}

    def clear(self) -> None:
        """Take all pages away that nobody is writing."""
        table = np.empty((self.capacity, _WORDS), np.uint64)
        self._region.get_into(_HEAD_LEN, table)
        slots = np.flatnonzero((table[:, _LEN] > 0) & (table[:, _STATE] & np.uint64(1) == 0)).astype(np.uint64)
        if not slots.size:
            return
        states, olds = table[slots.astype(np.int64), _STATE], np.empty(slots.size, np.uint64)
        change, claims = np.uint64(1 << 17), np.uint64(0x1FFFF)
        claimed = (states & ~claims) + change | np.uint64(self._number() << 1 | 1)
        self._region.native.compare_and_swap(self._words(slots, _STATE), states, claimed, olds)
        slots, claimed = slots[olds == states], claimed[olds == states]
        self._region.native.put(self._words(slots, _LEN), np.zeros(slots.size, np.uint64))
        self._region.native.compare_and_swap(self._words(slots, _STATE), claimed, (claimed & ~claims) + change, olds[: slots.size])

    def close(self) -> None:
        """Give this program's number as a writer back; the next put takes another."""
        if self._writer is not None and self._writer[0] == os.getpid():
            self._writer[2].release()
        self._writer = None

    def remove(self) -> None:
        """Remove the cache from the pool."""
        self.close()
        self._region.remove()

    def __reduce__(self) -> Any:
        return _reopen, (self.name, named(self._pool))

    def __repr__(self) -> str:
        return f"<hanare.kv.PageCache '{self.name}' of {self.capacity} pages of {self.page_len} bytes>"
