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
import secrets
import time
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from . import _hanare, pool as _pools
from ._hanare import PLACE, PLAIN, VIEWED_LEN_MIN, Changed, Frozen, Full, checksum, decode_key
from ._hashed import Entry, Hashed, Root, Words, is_frozen
from ._trust import Trusted, named, trusting
from ._values import ARRAY, BESIDE, IN_PLACE, PROGRAMS, Encoded, decode_value, encode_value
from .errors import (
    BadAttributes, Error, Garbage, LimitReached, LockLost, NameTaken, NoPermission, NotTrusted, PoolFull, QuotaExceeded, Timeout, UnknownRegion,
)  # fmt: skip
from .pool import Pool, Region

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

    Keys are texts, bytes, numbers, ``None``, and tuples of those; values bytes, arrays, texts and numbers, or whatever can be pickled. Each call is
    one step to all others: a value is seen whole, old or new. Iteration sees what was there all the time, and may or may not see what changes
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
    mode : int
        Who may read and write, as a file's mode bits. Where it is made; parts that are made later get that of its root.
    trust : int, str, or several of them, optional
        Users, by number or name, whose dictionary is used too, or ``"anyone"``. All regions of it have to be theirs or this program's user's.
    pickle : bool, optional
        Whether pickles are read and written. A pickle runs whatever its writer wants, as the user who reads it. By default they are where no
        other user may have written any region of the dictionary. ``True`` trusts with that the owners in `trust` and the group of the regions; where
        all users may write, only beside ``trust="anyone"``. ``False``: never.

    Raises
    ------
    NotTrusted
        Another user made a region of it; by reading, a value is pickled that others may have written. `docs/security.md` says why.
    TypeError
        By an assignment: the value has to be pickled, and may not be.
    NodeLost, RegionLost
        By any call: bytes of it went with a node.
    PoolFull
        By assignments.

    Notes
    -----
    **Cost**: on this host some copies for a value that is read, and none or two messages to this host's node for one that is written. Elsewhere
    one message each way for a short value whose place this program has seen, and two for one that it has not; two more for a long value. Such
    a short value is written with two messages each way, with one right behind a look at its key (`d[key] += 1`), and one more where no block was
    free. A table that becomes crowded is made anew,
    four times as long, by the program that finds it so; writers wait for it meanwhile, readers do not.

    A program keeps up to 260 KiB of the blocks that its writes set free, twice that with long values, for its next writes. They go back when the
    last reference goes, when the program ends, and by `stat` and `sweep`; those of a killed program by a sweep.
    """

    def __init__(
        self,
        name: str,
        *,
        pool: Pool | None = None,
        place: str = "local",
        buckets: int = 1 << 14,
        memory: int = 16 << 20,
        mode: int = 0o600,
        trust: Trusted = None,
        pickle: bool | None = None,
    ) -> None:
        self.name, self._pool, self._pickle = name, trusting(pool, trust), pickle
        if buckets <= 0 or memory < 4096:
            raise ValueError("a dictionary has at least one bucket, and 4096 bytes of memory")
        terms = f"buckets={buckets},memory={memory},seed={secrets.randbits(64)},place={place}"
        self._root_region = self._open_root(place, terms, mode)
        native = self._root_region.native
        self._mode, self._writers = native.mode, self._pool._native.writers_of(native)
        self._buckets, self._memory, self._seed, self._place = _terms_of(self.name, native.attributes().get(_ATTRIBUTE, b""))
        self._crowd = _CROWD
        self._now = self._open(self._root())

    def _open_root(self, place: str, terms: str, mode: int) -> Region:
        try:
            native = self._pool._native.create(self.name, _ROOT_LEN, place, mode, False, {_ATTRIBUTE: terms.encode()})
        except NameTaken:
            native = self._pool._native.open_trusted(self.name)
        return Region(self._pool, native, None)

    # Trust.

    def _may_pickle(self, table: Hashed) -> bool:
        """Whether all that may have written the regions of the dictionary, as far as they are open, are trusted with pickles."""
        which = 1 if self._pickle else 0
        return self._pickle is not False and self._writers[which] and table.writers(which)

    def _decode(self, table: Hashed, key: Any, kind: int, raw: Any) -> Any:
        if kind in PROGRAMS and not self._may_pickle(table):
            raise NotTrusted(
                f"the value of {key!r} in dictionary '{self.name}' is a pickle, and others than you may have written it: it was not read, because it "
                "could run any program as you; see 'pickle' and 'trust' of hanare.Dict, or have it written with pickle=False"
            )
        return decode_value(kind, raw)

    # Tables.

    def _root(self) -> Root:
        return Root.read(int.from_bytes(self._root_region.native.get_bytes(0, 8), "little"))

    def _swap_root(self, old: Root, new: Root) -> bool:
        return self._root_region.native.compare_and_swap_word(0, old.write(), new.write()) == old.write()

    def _part(self) -> dict[str, bytes]:
        return {_PART: str(self._root_region.gid).encode()}

    def _heaps(self, kind: str, memory: int) -> _hanare.Blocks:
        return _hanare.Blocks(self._pool._native, f"{self.name}.{kind}", self._place, memory, self._mode, self._part())

    def _table(self) -> Hashed:
        """The table as it was last seen; opened anew in a child made by fork."""
        if self._now.generation != _pools._generation:
            # The parent's handles are left as they are.
            _pools._kept.append(self._now)
            self._now = self._open(self._root())
        return self._now

    def _open(self, root: Root) -> Hashed:
        name = f"{self.name}.t{root.table}"
        if root.table:
            region = Region(self._pool, self._pool._native.open_trusted(name), None)
        else:
            # The first table is made by whoever comes first.
            region = Region(self._pool, self._pool._native.create(name, 8 * self._buckets, self._place, self._mode, True, self._part()), None)
        return Hashed(root, region, self._seed, self._heaps(f"t{root.table}", self._memory), self._heaps(f"v{root.values}", self._memory))

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
        region = Region(self._pool, self._pool._native.create(name, 8 * count, self._place, self._mode, False, self._part()), None)
        # One heap that has room for all: nothing is short of memory once the words are frozen.
        buckets = self._heaps(f"t{root.table}", max(self._memory, 2 * old.buckets.taken() + 4096))
        values = self._heaps(f"v{root.values}", max(self._memory, old.values.capacity())) if sweeps else old.values
        return Hashed(root, region, self._seed, buckets, values)

    def _copy(self, old: Hashed, words: Words, fresh: Hashed, sweeps: bool) -> None:
        table: Words = np.zeros(fresh.count, np.uint64)
        for number in np.flatnonzero(words & np.uint64(PLACE)):
            try:
                entries = old.entries(int(number), int(words[number]))
                if sweeps:
                    entries = [self._moved(each, old, fresh) if each.far else each for each in entries]
            except Changed:
                raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense") from None
            found: dict[int, list[Entry]] = {}
            for entry in entries:
                found.setdefault(fresh.native.number_of(entry.key), []).append(entry)
            for at, those in found.items():
                table[at] = fresh.native.write(at, 0, those, True)
        fresh.region.native.put((0, table.nbytes, []), table)

    def _moved(self, entry: Entry, old: Hashed, fresh: Hashed) -> Entry:
        value = old.values.read(entry.far, entry.length)
        return entry._replace(far=fresh.values.write([value], True))

    def _remove_parts(self, kept: set[str] | None) -> None:
        """Remove all tables and heaps but those; with ``None`` none, as another program has begun."""
        if kept is None:
            return
        mine, wanted = list(self._part()[_PART]), re.compile(re.escape(self.name) + r"\.([tv]\d+)(\.\d+)?")
        for told in json.loads(self._pool._native.list()):
            named = wanted.fullmatch(told["name"])
            is_ours = self._pool._native.includes(told["owner"])
            if named and named[1] not in kept and is_ours and list(told.get("attributes", {}).get(_PART, ())) == mine:
                try:
                    self._pool.remove(told["name"])
                except (UnknownRegion, NoPermission):
                    # Another user that is trusted made it: that user's programs remove it.
                    continue

    # Finding and changing.

    def _find(self, key: Any) -> tuple[Hashed, int, int, Entry | None]:
        """The table, a key's word, its code, and the key's entry."""
        for turn in range(_TURN_COUNT_MAX):
            table = self._table()
            try:
                number, word, entry = table.native.find(key)
                if not (is_frozen(word) and self._has_moved(table)):
                    return table, number, word, Entry._make(entry) if entry is not None else None
            except Changed:
                _pause(turn)
            except Error:
                if not self._has_moved(table):
                    raise
        raise Garbage(f"a bucket of dictionary '{self.name}' cannot be read: its bytes make no sense")

    def _change(self, key: Any, fresh: tuple[int, bytes, int, int, int] | None, made_for: Hashed | None = None) -> bool:
        """Set a key's value (kind, bytes, length, far, checksum), or take the key away; say whether there was anything to do.

        Raises
        ------
        _Moved
            The value is another table's.
        """
        may_grow = False
        for turn in range(_TURN_COUNT_MAX):
            table = self._table()
            if made_for is not None and table is not made_for:
                raise _Moved
            try:
                count = table.native.change(key, fresh, may_grow)
                if count is not None and count >= self._crowd and table.count < _BUCKET_COUNT_MAX and table.is_crowded():
                    self._grow(table)
                return count is not None
            except Changed:
                _pause(turn)
            except Frozen:
                if not self._has_moved(table):
                    self._renew(table)
            except Full:
                may_grow = not self._sweep_if_worth(table, table.buckets)
            except Error:
                if not self._has_moved(table):
                    raise
        raise Timeout(f"dictionary '{self.name}' is changed by others all the time; nothing was done")

    def _grow(self, table: Hashed) -> None:
        try:
            self._renew(table, growth=_GROWTH)
        except (PoolFull, QuotaExceeded, LimitReached, NameTaken):
            # Longer buckets do for longer.
            self._crowd *= 2

    # What nobody links.

    def _sweep_if_worth(self, table: Hashed, full: _hanare.Blocks) -> bool:
        """Sweep before a further heap is made, where much of those that are there is linked by nobody; say whether."""
        linked = table.native.linked()[0 if full is table.buckets else 1]
        if (full.taken() - linked) * _SWEPT_PART < full.capacity():
            return False
        try:
            self._renew(table, sweeps=True)
        except (PoolFull, QuotaExceeded, LimitReached, NameTaken):
            return False
        return True

    def stat(self) -> dict[str, int]:
        """Count words of the table, bytes of its heaps, bytes that keys and values take, and bytes that nobody links.

        Bytes that nobody links are another program's, which keeps them for its next writes or is about to link or to free them, or were a
        program's that was killed. What this program keeps is given back first.
        """
        while True:
            table = self._table()
            try:
                linked = sum(table.native.linked())
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
            self._renew(self._table(), sweeps=True)
        return found

    # A mapping.

    def __getitem__(self, key: Any) -> Any:
        table = self._now
        try:
            found = table.native.get(key)
        except Changed:
            return self._read(key, False)
        except Error:
            if not self._has_moved(table):
                raise
            return self._read(key, False)
        if isinstance(found, bytes):
            return found
        number, word, entry = found
        if is_frozen(word):
            return self._read(key, False)
        return self._read(key, False, (table, number, word, Entry._make(entry) if entry is not None else None))

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

    def _read(self, key: Any, in_place: bool, found: tuple[Hashed, int, int, Entry | None] | None = None) -> Any:
        for turn in range(_TURN_COUNT_MAX):
            (table, number, word, entry), found = found or self._find(key), None
            if entry is None:
                raise KeyError(key)
            try:
                if in_place and entry.length >= VIEWED_LEN_MIN and entry.kind in IN_PLACE:
                    held = table.hold(number, word, entry)
                    if held is not None:
                        return self._decode(table, key, entry.kind, held)
                raw: Any = entry.value
                is_array = entry.kind in (BESIDE, ARRAY)
                if is_array and entry.far:
                    # Arrays can be written to that are read so.
                    raw = np.empty(entry.length, np.uint8)
                    table.values.read_into(entry.far, raw)
                elif is_array and not in_place:
                    raw = bytearray(raw)
                elif entry.far:
                    raw = table.values.read(entry.far, entry.length)
                # The block may have been given back and used again while it was read; the word tells.
                if not entry.far or table.native.word(number) == word or checksum([raw]) == entry.checksum:
                    return self._decode(table, key, entry.kind, memoryview(raw).toreadonly() if in_place else raw)
            except Changed:
                pass
            except Error:
                if not self._has_moved(table):
                    raise
            _pause(turn)
        raise Timeout(f"dictionary '{self.name}' is changed by others all the time; nothing was read")

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is bytes and len(value) <= _INLINE_LEN_MAX:
            self._change(key, (PLAIN, value, len(value), 0, 0))
            return
        written = encode_value(value, self._may_pickle(self._table()))
        if written.length <= _INLINE_LEN_MAX:
            self._change(key, (written.kind, b"".join(written.parts), written.length, 0, 0))
            return
        total = written.checksum()
        while True:
            table, far = self._table(), 0
            try:
                far = self._write_value(table, written)
                self._change(key, (written.kind, b"", written.length, far, total), made_for=table)
                return
            except _Moved:
                table.values.free(far, written.length)
            except Error as error:
                if error.happened == "no":
                    table.values.free(far, written.length)
                if not self._has_moved(table):
                    raise

    def _write_value(self, table: Hashed, written: Encoded) -> int:
        try:
            return table.values.write(written.parts, False)
        except Full:
            if self._sweep_if_worth(table, table.values):
                raise _Moved from None
            return table.values.write(written.parts, True)

    def __delitem__(self, key: Any) -> None:
        if not self._change(key, None):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._find(key)[3] is not None

    def _all(self) -> Iterator[list[Entry]]:
        """The entries of all buckets. Keys of one word are, in a table that was made anew, those of words that follow at so many words' distance."""
        step, number = self._table().count, 0
        table: Hashed | None = None
        while number < step:
            try:
                if table is not self._table():
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
                found = [entry for at in numbers for entry in table.entries(at, int(words[at]))]
                if not any(is_frozen(int(words[at])) for at in numbers) or not self._has_moved(table):
                    return found
                raise UnknownRegion(f"a table of dictionary '{self.name}' was made anew")
            except Changed:
                _pause(turn)
                for at in numbers:
                    words[at] = table.native.word(at)
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
        return _reopen, (self.name, named(self._pool), self._pickle)

    def __repr__(self) -> str:
        return f"<hanare.Dict '{self.name}'>"


def _reopen(name: str, trust: tuple[int | str, ...], pickle: bool | None) -> Dict:
    """Open what another program has pickled."""
    return Dict(name, trust=trust, pickle=pickle)


def _terms_of(name: str, written: bytes) -> tuple[int, int, int, str]:
    """Words of the first table, bytes of the first heap, seed and place, as the root's attribute says them. **Errors**: `BadAttributes`."""
    try:
        told = dict(part.split("=", 1) for part in written.decode().split(",", 3))
        buckets, memory, seed = (int(told[each]) if told[each].isascii() and told[each].isdigit() else -1 for each in ("buckets", "memory", "seed"))
        place = told["place"]
    except (KeyError, ValueError):
        raise BadAttributes(f"region '{name}' is no dictionary") from None
    if not (0 < buckets < 1 << 48 and 4096 <= memory < 1 << 63 and 0 <= seed < 1 << 64):
        raise BadAttributes(f"region '{name}' says of itself what no dictionary is")
    return buckets, memory, seed, place


def _pause(turn: int) -> None:
    """Let others go first, longer each time, by chance."""
    if turn > 2:
        time.sleep(random.random() * min(1e-5 * 2 ** min(turn, 8), 2e-3))
