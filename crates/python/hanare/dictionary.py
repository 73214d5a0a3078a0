"""A dictionary in the pool, for any number of programs that read and write it at a time.

There is no server, and no lock but for what makes the table anew. A table of words stands in one region; each word leads to a *bucket*, a
block of a heap that has all entries of the keys whose hash leads there. A writer makes the bucket anew and swaps the word in one step;
another who was faster has it try again. A reader checks that what it read is the bucket that the word stood for.

::

    NAME       | root word                          which table and which values, and how often one was begun
    NAME.t7    | word word word ...                 word: frozen, tag, segment, bytes of the bucket, place
    NAME.t7.0  | heap of buckets; NAME.t7.1 ...     the next heap, twice as long, when that one is full
    NAME.v3.0  | heap of values that are too long for a bucket; NAME.v3.1 ...

A table that is crowded is made anew, four times as long: its words are *frozen* in one command, so that no swap succeeds any more; its buckets
are copied; the root word is swapped; the old table is removed. Readers of frozen words look whether the root word still stands. A sweep
makes the values anew too: what a killed program took and did not link stays behind in the old heaps, and goes with them.
A program that is killed meanwhile leaves frozen words; the next writer begins again.
"""

from __future__ import annotations

import json
import random
import re
import time
import zlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from ._buckets import PLACE, Entry, Hashed, Root, Word, Words, decode_key, encode_key
from ._heaps import GRANULE, VIEWED_LEN_MIN, Changed, Full, Heaps, rounded
from ._values import BESIDE, PICKLED, PLAIN, Encoded, decode_value, encode_value
from .errors import BadAttributes, Error, Garbage, LimitReached, LockLost, NameTaken, PoolFull, QuotaExceeded, Timeout, UnknownRegion
from .pool import Pool, Region, connect

__all__ = ["Dict"]

#: The attribute by which a region says that it is such a dictionary, and that by which one says whose part it is.
_ATTRIBUTE, _PART = "hanare.dict", "hanare.dict.part"
_ROOT_LEN = 64
#: How often a bucket that others change is tried: some seconds.
_TURN_COUNT_MAX = 5000
#: Bytes of a value that lies in its bucket: one more block costs a message, a longer bucket is copied with each change.
_INLINE_LEN_MAX = 1024
#: Entries of a bucket that have its writer look whether the table is crowded: with two keys to a word, one bucket of a thousand.
_CROWD = 8
#: A crowded table is made anew with so many times the words, up to the second number.
_GROWTH, _BUCKET_COUNT_MAX = 4, 1 << 26
#: A sweep comes before a further heap where more than one part of so many is linked by nobody.
_SWEPT_PART = 4


class _Moved(Exception):
    """The table was made anew."""


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
        Words of the table at first; it grows with the keys. Where it is made.
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
    **Cost**: on this host some copies for a value that is read, and none or two messages to this host's node for one that is written. Elsewhere
    one message each way for a short value whose place this program has seen, and two for one that it has not; two more for a long value. Such
    a short value is written with two messages each way, and a third where no block was free. A table that becomes crowded is made anew,
    four times as long, by the program that finds it so; writers wait for it meanwhile, readers do not.

    A program keeps up to 260 KiB of the blocks that its writes set free, twice that with long values, for its next writes. They go back when the
    last reference goes, when the program ends, and by `stat` and `sweep`; those of a killed program by a sweep.
    """

    def __init__(
        self, name: str, *, pool: Pool | None = None, place: str = "local", buckets: int = 1 << 14, memory: int = 16 << 20
    ) -> None:
        self.name, self._pool = name, pool if pool is not None else connect()
        if buckets <= 0 or memory < 4096:
            raise ValueError("a dictionary has at least one bucket, and 4096 bytes of memory")
        self._root_region = self._open_root(place, f"buckets={buckets},memory={memory},place={place.replace('=', ':')}")
        told = dict(part.split("=") for part in self._root_region.native.attributes()[_ATTRIBUTE].decode().split(","))
        self._buckets, self._memory, self._place = int(told["buckets"]), int(told["memory"]), told["place"].replace(":", "=")
        self._crowd = _CROWD
        self._now = self._open(self._root())

    def _open_root(self, place: str, terms: str) -> Region:
        try:
            native = self._pool._native.create(self.name, _ROOT_LEN, place, 0o600, False, {_ATTRIBUTE: terms.encode()})
        except NameTaken:
            native = self._pool._native.open(self.name, None)
            if _ATTRIBUTE not in native.attributes():
                raise BadAttributes(f"region '{self.name}' is no dictionary") from None
        return Region(self._pool, native, None)

    # Tables.

    def _root(self) -> Root:
        return Root.read(int.from_bytes(self._root_region.native.get_bytes(0, 8), "little"))

    def _swap_root(self, old: Root, new: Root) -> bool:
        return self._root_region.native.compare_and_swap_word(0, old.write(), new.write()) == old.write()

    def _part(self) -> dict[str, bytes]:
        return {_PART: str(self._root_region.gid).encode()}

    def _heaps(self, kind: str, memory: int) -> Heaps:
        return Heaps(self._pool, f"{self.name}.{kind}", self._place, memory, self._part())

    def _open(self, root: Root) -> Hashed:
        name = f"{self.name}.t{root.table}"
        if root.table:
            region = self._pool.region(name)
        else:
            # The first table is made by whoever comes first.
            region = Region(self._pool, self._pool._native.create(name, 8 * self._buckets, self._place, 0o600, True, self._part()), None)
        return Hashed(root, region, self._heaps(f"t{root.table}", self._memory), self._heaps(f"v{root.values}", self._memory))

    def _has_moved(self, table: Hashed) -> bool:
        """Look whether another table is the dictionary's, and open it then. **Errors**: those of a dictionary that is gone."""
        while (root := self._root())[:2] == self._now.root[:2]:
            return table is not self._now
        try:
            self._now = self._open(root)
        except UnknownRegion:
            # A still newer one, or none any more: the root says.
            _pause(3)
        return True

    def _renew(self, table: Hashed, growth: int = 1, sweeps: bool = False) -> None:
        """Make the table anew, or wait until another program has.

        Raises
        ------
        PoolFull, QuotaExceeded, LimitReached
            There is no memory for it; all is as it was.
        """
        lock = self._pool.lock(f"hanare.dict.{self._root_region.gid}")
        lock.acquire()
        try:
            if not self._has_moved(table):
                self._make_anew(table, growth, sweeps)
        except _Moved:
            # Another began, while this program had lost the lock: the words say when it is done.
            pass
        finally:
            try:
                lock.release()
            except LockLost:
                # Another began meanwhile: the root word was swapped by one of both.
                pass

    def _make_anew(self, old: Hashed, growth: int, sweeps: bool) -> None:
        root = self._root()
        number = root.begun + 1
        mine = root._replace(begun=number)
        if number >> 20 or not self._swap_root(root, mine):
            raise LimitReached(f"the table of dictionary '{self.name}' was made anew too often; copy it to another")
        # From here on nobody who began before can finish.
        self._remove_parts({f"t{root.table}", f"v{root.values}"})
        future = mine._replace(table=number, values=number if sweeps else root.values)
        frozen = False
        try:
            fresh = self._make_table(future, old, min(old.count * growth, max(_BUCKET_COUNT_MAX, old.count)), sweeps)
            words, frozen = old.freeze(), True
            self._copy(old, words, fresh, sweeps)
            if not self._swap_root(mine, future):
                raise _Moved
        except BaseException:
            self._remove_parts({f"t{root.table}", f"v{root.values}"} if self._root() == mine else None)
            if frozen and self._root() == mine:
                old.thaw()
            raise
        self._now = fresh
        self._remove_parts({f"t{future.table}", f"v{future.values}"})

    def _make_table(self, root: Root, old: Hashed, count: int, sweeps: bool) -> Hashed:
        name = f"{self.name}.t{root.table}"
        region = Region(self._pool, self._pool._native.create(name, 8 * count, self._place, 0o600, False, self._part()), None)
        # One heap that has room for all: nothing is short of memory once the words are frozen.
        buckets = self._heaps(f"t{root.table}", max(self._memory, 2 * old.buckets.taken() + 4096))
        values = self._heaps(f"v{root.values}", max(self._memory, old.values.capacity())) if sweeps else old.values
        return Hashed(root, region, buckets, values)

    def _copy(self, old: Hashed, words: Words, fresh: Hashed, sweeps: bool) -> None:
        table: Words = np.zeros(fresh.count, np.uint64)
        for number in np.flatnonzero(words & np.uint64(PLACE)):
            try:
                entries = old.bucket(int(number), Word.read(int(words[number])))
                if sweeps:
                    entries = [each._replace(far=fresh.write_value([old.read_value(each)])) if each.far else each for each in entries]
            except Changed:
                raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense") from None
            found: dict[int, list[Entry]] = {}
            for entry in entries:
                found.setdefault(fresh.number_of(entry.key), []).append(entry)
            for at, those in found.items():
                table[at] = fresh.write(at, 0, those).write()
        fresh.region.native.put((0, table.nbytes, []), table)

    def _remove_parts(self, kept: set[str] | None) -> None:
        """Remove all tables and heaps but those; with ``None`` none, as another program has begun."""
        if kept is None:
            return
        mine, wanted = list(self._part()[_PART]), re.compile(re.escape(self.name) + r"\.([tv]\d+)(\.\d+)?")
        for told in json.loads(self._pool._native.list()):
            named = wanted.fullmatch(told["name"])
            if named and named[1] not in kept and list(told.get("attributes", {}).get(_PART, ())) == mine:
                try:
                    self._pool.remove(told["name"])
                except UnknownRegion:
                    continue

    # Finding and changing.

    def _find(self, coded: bytes) -> tuple[Hashed, int, Word, list[Entry]]:
        for turn in range(_TURN_COUNT_MAX):
            table = self._now
            number = table.number_of(coded)
            try:
                word, entries = table.look(number)
                if not (word.is_frozen and self._has_moved(table)):
                    return table, number, word, entries
            except Changed:
                _pause(turn)
            except Error:
                if not self._has_moved(table):
                    raise
        raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense")

    def _change(self, coded: bytes, fresh: Entry | None, made_for: Hashed | None = None) -> tuple[Hashed, Entry | None]:
        """Set a key's entry, or take it away; return the one before, and the table. **Errors**: `_Moved` where the entry is another table's."""
        for turn in range(_TURN_COUNT_MAX):
            table, number, word, entries = self._find(coded)
            if made_for is not None and table is not made_for:
                raise _Moved
            if word.is_frozen:
                self._renew(table)
                continue
            before = next((entry for entry in entries if entry.key == coded), None)
            if fresh is None and before is None:
                return table, None
            rest = [entry for entry in entries if entry.key != coded] + ([fresh] if fresh is not None else [])
            try:
                if self._swap(table, number, word, rest):
                    return table, before
            except Error:
                if not self._has_moved(table):
                    raise
            _pause(turn)
        raise Timeout(f"dictionary '{self.name}' is changed by others all the time; nothing was done")

    def _swap(self, table: Hashed, number: int, word: Word, entries: list[Entry]) -> bool:
        """Put a bucket in another's place; say whether nobody was faster."""
        try:
            fresh, is_first = table.replace(number, word, entries, may_grow=False)
        except Full:
            if self._sweep_if_worth(table, table.buckets):
                return False
            fresh, is_first = table.replace(number, word, entries)
        if not is_first:
            table.buckets.free(fresh.segment, fresh.place, fresh.granules * GRANULE)
            return False
        table.note(number, fresh)
        table.buckets.free(word.segment, word.place, word.granules * GRANULE)
        if len(entries) >= self._crowd and table.count < _BUCKET_COUNT_MAX and table.is_crowded():
            self._grow(table)
        return True

    def _grow(self, table: Hashed) -> None:
        try:
            self._renew(table, growth=_GROWTH)
        except (PoolFull, QuotaExceeded, LimitReached):
            # Longer buckets do for longer.
            self._crowd *= 2

    # What nobody links.

    def _linked(self, table: Hashed) -> tuple[int, int]:
        """Bytes of buckets and of values that the table leads to."""
        buckets = values = 0
        for number, code in enumerate(table.words()):
            word = Word.read(int(code))
            try:
                entries = table.bucket(number, word)
            except Changed:
                continue
            buckets += table.size_of(word, entries)
            values += sum(rounded(entry.length) for entry in entries if entry.far)
        return buckets, values

    def _sweep_if_worth(self, table: Hashed, full: Heaps) -> bool:
        """Sweep before a further heap is made, where much of those that are there is linked by nobody; say whether."""
        linked = self._linked(table)[0 if full is table.buckets else 1]
        if (full.taken() - linked) * _SWEPT_PART < full.capacity():
            return False
        try:
            self._renew(table, sweeps=True)
        except (PoolFull, QuotaExceeded, LimitReached):
            return False
        return True

    def stat(self) -> dict[str, int]:
        """Count words of the table, bytes of its heaps, bytes that keys and values take, and bytes that nobody links.

        Bytes that nobody links are another program's, which keeps them for its next writes or is about to link or to free them, or were a
        program's that was killed. What this program keeps is given back first.
        """
        while True:
            table = self._now
            try:
                linked = sum(self._linked(table))
                taken = table.buckets.taken() + table.values.taken()
                capacity = table.buckets.capacity() + table.values.capacity()
                if not self._has_moved(table):
                    return {"buckets": table.count, "capacity": capacity, "linked": linked, "unlinked": max(taken - linked, 0)}
            except Error:
                if not self._has_moved(table):
                    raise

    def sweep(self) -> int:
        """Give back what killed programs took and did not link; return how many bytes were linked by nobody.

        It makes table and values anew, so it needs as much free memory as the dictionary has, and writers wait for it. Assignments do the
        same by themselves before they take memory for a further heap, where a quarter is linked by nobody.

        Raises
        ------
        PoolFull, QuotaExceeded
            All is as it was.
        """
        found = self.stat()["unlinked"]
        if found:
            self._renew(self._now, sweeps=True)
        return found

    # A mapping.

    def __getitem__(self, key: Any) -> Any:
        return self._read(key, False)

    def view(self, key: Any) -> Any:
        """Return a value whose bytes are not copied, where they are on this host: read-only, and as they are, whoever replaces it.

        Values of less than 64 KiB, and those of another host, are copied.

        Returns
        -------
        object
            Bytes are a `memoryview`, arrays a `numpy.ndarray` that is not writable; other values are as they always are, with such arrays in
            them. The memory of a value comes back when it was replaced and the last view of it has gone.

        Raises
        ------
        KeyError, NodeLost, RegionLost

        Notes
        -----
        **Cost**: on this host some microseconds, whatever the length. While a program has views, one in eight of the long values that others
        replace has to wait for its memory. A program that is killed while it has views keeps that up until a `sweep`, which comes by itself
        before the dictionary takes memory for more. A child made by fork must take views of its own.
        """
        return self._read(key, True)

    def _read(self, key: Any, in_place: bool) -> Any:
        coded = encode_key(key)
        for turn in range(_TURN_COUNT_MAX):
            table, number, word, entries = self._find(coded)
            entry = next((entry for entry in entries if entry.key == coded), None)
            if entry is None:
                raise KeyError(key)
            try:
                if in_place and entry.length >= VIEWED_LEN_MIN and entry.kind != PICKLED:
                    held = table.hold(number, word, entry)
                    if held is not None:
                        return decode_value(entry.kind, held)
                raw: Any
                if entry.kind == BESIDE:
                    # Arrays can be written to that are read so.
                    raw = np.empty(entry.length, np.uint8)
                    table.read_value_into(entry, raw)
                else:
                    raw = table.read_value(entry)
                # The block may have been given back and used again while it was read; the word tells.
                if not entry.far or table.word(number) == word or zlib.crc32(raw) == entry.checksum:
                    return decode_value(entry.kind, memoryview(raw).toreadonly() if in_place else raw)
            except Changed:
                pass
            except Error:
                if not self._has_moved(table):
                    raise
            _pause(turn)
        raise Timeout(f"dictionary '{self.name}' is changed by others all the time; nothing was read")

    def __setitem__(self, key: Any, value: Any) -> None:
        written = encode_value(value)
        coded = encode_key(key)
        if written.length <= _INLINE_LEN_MAX:
            table, before = self._change(coded, Entry(coded, written.parts[0], written.length, 0, written.kind, 0))
            return table.free_value(before)
        checksum = written.checksum()
        while True:
            table = self._now
            fresh = Entry(coded, b"", written.length, 0, written.kind, checksum)
            try:
                fresh = fresh._replace(far=self._write_value(table, written))
                table, before = self._change(coded, fresh, made_for=table)
                return table.free_value(before)
            except _Moved:
                table.free_value(fresh)
            except Error:
                table.free_value(fresh)
                if not self._has_moved(table):
                    raise

    def _write_value(self, table: Hashed, written: Encoded) -> int:
        try:
            return table.write_value(written.parts, may_grow=False)
        except Full:
            if self._sweep_if_worth(table, table.values):
                raise _Moved from None
            return table.write_value(written.parts)

    def __delitem__(self, key: Any) -> None:
        table, before = self._change(encode_key(key), None)
        if before is None:
            raise KeyError(key)
        table.free_value(before)

    def __contains__(self, key: object) -> bool:
        coded = encode_key(key)
        return any(entry.key == coded for entry in self._find(coded)[3])

    def _all(self) -> Iterator[list[Entry]]:
        """The entries of all buckets. Keys of one word are, in a table that was made anew, those of words that follow at so many words' distance."""
        step, number = self._now.count, 0
        table: Hashed | None = None
        while number < step:
            try:
                if table is not self._now:
                    table = self._now
                    words = table.words()
                yield self._entries(table, words, range(number, table.count, step))
                number += 1
            except Error:
                if table is None or not self._has_moved(table):
                    raise

    def _entries(self, table: Hashed, words: Words, numbers: range) -> list[Entry]:
        """The entries of some buckets at one moment; the words are those of before, or what became of them."""
        for turn in range(_TURN_COUNT_MAX):
            try:
                found = [entry for at in numbers for entry in table.bucket(at, Word.read(int(words[at])))]
                if not any(int(words[at]) >> 63 for at in numbers) or not self._has_moved(table):
                    return found
                raise UnknownRegion(f"a table of dictionary '{self.name}' was made anew")
            except Changed:
                _pause(turn)
                for at in numbers:
                    words[at] = table.word(at).write()
        raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense")

    def __iter__(self) -> Iterator[Any]:
        for entries in self._all():
            for entry in entries:
                yield decode_key(entry.key)

    def __len__(self) -> int:
        return sum(map(len, self._all()))

    def clear(self) -> None:
        """Take all keys away."""
        for key in list(self):
            self.pop(key, None)

    def remove(self) -> None:
        """Remove the dictionary from the pool."""
        self._root_region.remove()
        self._remove_parts(set())

    def __reduce__(self) -> Any:
        return Dict, (self.name,)

    def __repr__(self) -> str:
        return f"<hanare.Dict '{self.name}'>"


def _pause(turn: int) -> None:
    """Let others go first, longer each time, by chance."""
    if turn > 2:
        time.sleep(random.random() * min(1e-5 * 2 ** min(turn, 8), 2e-3))
