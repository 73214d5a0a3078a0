"""A dictionary in the pool, for any number of programs that read and write it at a time.

The crate `hanare-dict` is the dictionary, for Rust, C and Python: there is no server, and a writer needs no lock. Here values become bytes, bytes
become values, and pickles are read where all that may have written them are trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from . import _attachment, _hanare
from ._hanare import PLAIN
from ._table_handle import TableHandle
from ._trust import Trusted, named, trusting
from ._values import PROGRAMS, decode_value, encode_value
from .errors import BadUse, NotTrusted
from .pool import Pool

__all__ = ["Dict"]

class Dict(TableHandle[_hanare.Dictionary], MutableMapping[Any, Any]):
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
    copies : int
        How many nodes hold each of its bytes, 1 to 3; where it is made. From 2 on it outlives a node, and is read by messages on every host.
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
    one message each way for a short value whose place this program has seen, and two for one that it has not; one more for a long value. Such
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
        copies: int = 1,
        buckets: int = 1 << 14,
        memory: int = 16 << 20,
        mode: int = 0o600,
        trust: Trusted = None,
        pickle: bool | None = None,
    ) -> None:
        self.name, self._pool, self._pickle = name, trusting(pool, trust), pickle
        if buckets <= 0 or memory < 4096:
            raise ValueError("a dictionary has at least one bucket, and 4096 bytes of memory")
        self._open_as(_hanare.Dictionary, self._pool, name, place, copies, buckets, memory, mode)

    def _in_child(self) -> _hanare.Dictionary:
        """The same where the parent's handle has refused a call; where none is refused for that, the error goes on."""
        if self._generation == _attachment.generation:
            raise
        return self._here()

    # Trust.

    def _may_pickle(self, alone: bool, vouched: bool) -> bool:
        """Whether a pickle may be read that none but this user, or none but users that are trusted, may have written."""
        return self._pickle is not False and (vouched if self._pickle else alone)

    def _decode(self, key: Any, kind: int, raw: Any, alone: bool, vouched: bool) -> Any:
        if kind in PROGRAMS and not self._may_pickle(alone, vouched):
            raise NotTrusted(
                f"the value of {key!r} in dictionary '{self.name}' is a pickle, and others than you may have written it: it was not read, because it "
                "could run any program as you; see 'pickle' and 'trust' of hanare.Dict, or have it written with pickle=False"
            )
        return decode_value(kind, raw)

    # What nobody links.

    def stat(self) -> dict[str, int]:
        """Count words of the table, bytes of its heaps, bytes that keys and values take, and bytes that nobody links.

        Bytes that nobody links are another program's, which keeps them for its next writes or is about to link or to free them, or were a
        program's that was killed. What this program keeps is given back first.
        """
        return dict(zip(("buckets", "capacity", "linked", "unlinked"), self._here().stat()))

    def sweep(self) -> int:
        """Give back what killed programs took and did not link; return how many bytes were linked by nobody.

        It makes table and values anew, so it needs as much free memory as the dictionary has, and writers wait for it. Assignments do the
        same by themselves before they take memory for a further heap, where a quarter is linked by nobody.

        Raises
        ------
        PoolFull, QuotaExceeded
            All is as it was.
        """
        return self._here().sweep()

    # A mapping.

    def __getitem__(self, key: Any) -> Any:
        try:
            found = self._native.get(key)
        except BadUse:
            found = self._in_child().get(key)
        if type(found) is bytes:
            return found
        if found is None:
            raise KeyError(key)
        return self._decode(key, *found)

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
        found = self._here().view(key)
        if found is None:
            raise KeyError(key)
        kind, raw, alone, vouched = found
        return self._decode(key, kind, memoryview(raw), alone, vouched)

    def __setitem__(self, key: Any, value: Any) -> None:
        native = self._here()
        if type(value) is bytes:
            native.set(key, PLAIN, value)
        else:
            written = encode_value(value, self._may_pickle(*native.writers))
            native.set(key, written.kind, written.parts)

    def __delitem__(self, key: Any) -> None:
        if not self._here().remove(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._here().contains(key)

    def __iter__(self) -> Iterator[Any]:
        cursor = _hanare.Cursor()
        while keys := cursor.next(self._here()):
            yield from keys

    def __len__(self) -> int:
        return self._here().len()

    def clear(self) -> None:
        """Take all keys away."""
        self._here().clear()

    def remove(self) -> None:
        """Remove the dictionary from the pool."""
        self._here().destroy()

    def __reduce__(self) -> Any:
        return _reopen, (self.name, named(self._pool), self._pickle)

    def __repr__(self) -> str:
        return f"<hanare.Dict '{self.name}'>"


def _reopen(name: str, trust: tuple[int | str, ...], pickle: bool | None) -> Dict:
    """Open what another program has pickled."""
    return Dict(name, trust=trust, pickle=pickle)
