"""A store in the pool: keys and values in memory of a given size, where keys leave to make room for others.

The crate `hanare-dict` is the store. Values are bytes: any buffer goes in, and comes back as `bytes` or into a buffer of the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from . import _hanare
from ._attachment import Attachment
from ._table_handle import TableHandle
from ._trust import Trusted, named, trusting

__all__ = ["Store"]

#: Keys of one step of iteration.
_SCANNED = 1000


class Store(TableHandle[_hanare.Store]):
    """Keys and values in memory of a given size, for any number of programs on all hosts at a time.

    Keys are texts, bytes, numbers, ``None``, and tuples of those. Values are the bytes of any buffer. Each call is one step to all others: a
    value is seen whole, old or new, and never another key's. Where a put finds no room, other keys leave.

    Parameters
    ----------
    name : str
        Its name; the first to open it makes it.
    pool : Pool, optional
        The pool; by default that of `connect`.
    bytes : int
        Memory for keys and values, 64 KiB at least. It is taken at once. The index takes 3 % more. Where it is made.
    evict : {"lru", "lfu", "ttl"}
        The keys that leave first: the longest unused, the least often used, or those that end first. With ``"ttl"`` keys without an end
        stay. The order is that of a random sample. Where it is made.
    entries : int, optional
        Expected number of keys; by default one for each KiB. Where it is made.
    place : str
        Placement of its bytes, as for `Pool.array`; where it is made.
    copies : int
        Nodes that hold each of its bytes, 1 to 3; where it is made.
    mode : int
        Who may read and write, as a file's mode bits. Where it is made.
    attributes : dict of bytes, optional
        Bytes that stay with its region, by names of the caller. Where it is made.
    trust : int, str, or several of them, optional
        Users, by number or name, whose store is used too, or ``"anyone"``.

    Raises
    ------
    NotTrusted
        Another user made it.
    BadAttributes
        A region of that name is no store.
    PoolFull
        The pool has not so much memory.
    NodeLost, RegionLost
        By any call: bytes of it went with a node.

    Notes
    -----
    A `deadline` is in seconds. A get that is later is a miss; the buffers have their bytes of before. On this host a get waits for nobody, and
    has no deadline. **Cost**: on this host a get is some copies, without a message; elsewhere one or two messages each way, and one more for
    a value of more than 1 KiB. A batch of gets is three messages to each node, for each 256 keys. The GIL is released.
    """

    def __init__(
        self,
        name: str,
        *,
        pool: Attachment | None = None,
        bytes: int = 64 << 20,
        evict: Literal["lru", "lfu", "ttl"] = "lru",
        entries: int | None = None,
        place: str = "local",
        copies: int = 1,
        mode: int = 0o600,
        attributes: dict[str, bytes] | None = None,
        trust: Trusted = None,
    ) -> None:
        self.name, self._pool = name, trusting(pool, trust)
        self._open_as(_hanare.Store, self._pool, name, bytes, evict, entries, place, copies, mode, attributes or {})

    @property
    def created(self) -> bool:
        """Whether this handle made the store."""
        return self._here().created

    def attribute(self, name: str) -> bytes | None:
        """Return an attribute of its region; ``None`` where it has none of that name."""
        return self._here().attribute(name)

    @property
    def evict(self) -> str:
        """The keys that leave first, as it was made."""
        return self._here().evict

    # Reading.

    def get(self, key: Any, *, deadline: float | None = None) -> bytes | None:
        """Return a key's value; ``None`` where it is not there. Counts as a use."""
        return self._here().get(key, deadline)

    def get_into(self, key: Any, into: Any, *, deadline: float | None = None) -> int | None:
        """Read a key's value into a buffer, and return its length; ``None`` where it is not there.

        Raises
        ------
        ValueError
            The buffer is shorter; it has its bytes of before.
        """
        return self._here().get_many([key], [into], deadline)[0]

    def get_many(self, keys: Sequence[Any], into: Sequence[Any], *, deadline: float | None = None) -> list[int | None]:
        """Read each key's value into the buffer of the same place.

        Parameters
        ----------
        keys : sequence
            The keys.
        into : sequence of buffers
            Writable and contiguous, of any type.
        deadline : float, optional
            Seconds; keys that were not read by then do not count as there.

        Returns
        -------
        list of int or None
            Bytes of each value; ``None`` where it is not there. Such a buffer may have other bytes than before.

        Raises
        ------
        ValueError
            Another number of buffers, one that is too short, or two that have bytes in common.
        """
        return self._here().get_many(list(keys), list(into), deadline)

    def exists(self, keys: Sequence[Any], *, deadline: float | None = None) -> list[bool]:
        """Say of each key whether it is there. Counts as a use."""
        return self._here().contains(list(keys), deadline)

    def prefix(self, keys: Sequence[Any], *, deadline: float | None = None) -> int:
        """Return how many keys, from the first on, are all there."""
        return self._here().prefix(list(keys), deadline)

    def __contains__(self, key: object) -> bool:
        return self._here().contains([key], None)[0]

    def ttl(self, key: Any) -> float | None:
        """Return in how many seconds a key ends; ``None`` where it has no end.

        Raises
        ------
        KeyError
            It is not there.
        """
        there, seconds = self._here().ttl(key)
        if not there:
            raise KeyError(key)
        return seconds

    # Watching.

    def stamp(self, key: Any) -> int:
        """Return the stamp of a key's value: two different values have different ones, but for one chance in 2^32. 0 where the key is not there. No use of the key."""
        return self._here().stamp(key)

    def watch(self, key: Any, *, since: int | None = None, deadline: float | None = None) -> int | None:
        """Wait until a key's value is another one: it was put, removed, evicted, or has ended.

        Take the stamp, then read the value, then watch: no change is missed. A value that changes and changes back before the call looks is
        not seen. A put of the same bytes, or a sweep, may end the call. No use of the key.

        Parameters
        ----------
        key
            The key. It need not be there.
        since : int, optional
            A stamp, of `stamp` or an earlier call; by default that of the value which the call finds.
        deadline : float, optional
            Seconds; by default the call waits as long as it takes. Ctrl-C ends it.

        Returns
        -------
        int or None
            The value's stamp, 0 where the key is not there. ``None`` after the deadline.

        Raises
        ------
        UnknownRegion
            The store was removed. A look each 2 s finds that.

        Notes
        -----
        **Cost**: on this host looks at a word, 1 ms apart at most. Elsewhere a message each way, and one or two for a look at the value; as
        much again each 2 s, and for each change of another key of the same word. Each 2 s one message to the coordinator.
        """
        native = self._here()
        changed: int | None = native.watch(key, native.stamp(key) if since is None else since, deadline).result()
        return changed

    # Changing.

    def put(self, key: Any, value: Any, *, ttl: float | None = None, deadline: float | None = None) -> None:
        """Set a key's value to the bytes of a buffer, and let it end in `ttl` seconds, if given. A pin stays.

        Raises
        ------
        HeapFull
            There is no room, because all keys that could leave are pinned. Nothing is waited for.
        LimitReached
            The value is longer than one of the store's heaps.
        Timeout
            The deadline has passed; the value may or may not be there.
        """
        self._here().put(key, value, ttl, deadline)

    def put_many(self, keys: Sequence[Any], values: Sequence[Any], *, ttl: float | None = None, replace: bool = True) -> list[bool]:
        """Set values by few messages; say of each whether there was room for it.

        Of a batch that is longer than the store, some keys find no room. Of a key that stands twice, the later value stays. Without `replace` a key that is there keeps its value, and that counts as a use.
        """
        return self._here().put_many(list(keys), list(values), ttl, replace)

    def expire(self, key: Any, ttl: float | None) -> bool:
        """Let a key end in so many seconds, or never; say whether it was there."""
        return self._here().expire(key, ttl)

    def pin(self, key: Any, seconds: float) -> bool:
        """Keep a key from leaving for so long; say whether it was there. A pin does not keep it from ending or being replaced."""
        return self._here().pin(key, seconds)

    def unpin(self, key: Any) -> bool:
        """End all pins of a key; say whether it was there."""
        return self._here().unpin(key)

    def remove(self, key: Any) -> bool:
        """Take a key away; say whether it was there."""
        return self._here().remove(key)

    def remove_many(self, keys: Sequence[Any]) -> list[bool]:
        """Take keys away by few messages; say of each whether it was there."""
        return self._here().remove_many(list(keys))

    # The whole.

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while True:
            at, keys = self._here().scan(at, _SCANNED)
            yield from keys
            if at == 0:
                return

    def __len__(self) -> int:
        return self._here().len()

    def clear(self) -> None:
        """Take all keys away."""
        self._here().clear()

    def stat(self) -> dict[str, int]:
        """Count bytes of the store, bytes that keys and values take, and bytes that nobody links."""
        return dict(zip(("bytes", "linked", "unlinked"), self._here().stat()))

    def sweep(self) -> int:
        """Give back what killed programs took and did not link; return how many bytes that was.

        Raises
        ------
        PoolFull, QuotaExceeded
            The store is copied to as much other memory, which is not there. All is as it was.
        """
        return self._here().sweep()

    def give_back(self) -> None:
        """Give back the memory that this program keeps for its next puts."""
        self._here().give_back()

    def destroy(self) -> None:
        """Remove the store from the pool."""
        self._here().destroy()

    def __reduce__(self) -> Any:
        return _reopen, (self.name, named(self._pool))

    def __repr__(self) -> str:
        return f"<hanare.Store '{self.name}'>"


def _reopen(name: str, trust: tuple[int | str, ...]) -> Store:
    """Open what another program has pickled."""
    return Store(name, trust=trust)
