"""Pages by key, for key-value caches of LLM servers: a batch of pages goes to or from the caller's buffers without a copy of the interpreter.

A cache is a `hanare.Store` whose region says how long its pages are. A key's page never changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._trust import Trusted, named
from .errors import BadAttributes, NameTaken
from .pool import Pool
from .store import Store

__all__ = ["PageCache"]

#: The attribute by which a store says that it is such a cache.
_ATTRIBUTE = "hanare.kv"
#: Bytes of the longest page, a quarter of a store's heap.
_PAGE_MAX = 16 << 20
#: Bytes of a page's bucket, and of a store's heap.
_BUCKET_LEN = 192
_HEAP_LEN = 64 << 20


def _bytes(buffer: Any) -> Any:
    """A buffer's bytes, without a copy. **Errors**: `ValueError` for one whose bytes do not lie one after another."""
    if not isinstance(buffer, np.ndarray):
        return buffer
    if not buffer.flags.c_contiguous:
        raise ValueError("a page's bytes lie one after another; those of this array do not")
    return buffer.reshape(-1).view(np.uint8)


def _store_len(page: int, pages: int) -> int:
    """Bytes of a store for so many pages. Each of its heaps has a page more, because no page lies in two; some are other programs' spares."""
    each = -(-page // 64) * 64 + _BUCKET_LEN
    heaps = min(max(pages * each // _HEAP_LEN, 1), 16)
    return max(-(-pages * each * 33 // 32) + heaps * (each + 256), 64 << 10)


def _terms_of(store: Store) -> tuple[int, int]:
    """Bytes of the longest page, and pages, as the store's attribute says them. **Errors**: `BadAttributes`."""
    written = store.attribute(_ATTRIBUTE)
    if written is None:
        raise BadAttributes(f"store '{store.name}' is no cache of pages")
    found = re.fullmatch(rb"page=([0-9]{1,8}),pages=([0-9]{1,12})", written)
    page, pages = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < page <= _PAGE_MAX or pages == 0:
        raise BadAttributes(f"store '{store.name}' says of itself what no cache of pages is")
    return page, pages


def _reopen(name: str, trust: tuple[int | str, ...]) -> PageCache:
    """Open what another program has pickled."""
    return PageCache(name, trust=trust)


class PageCache:
    """Pages by key, for any number of programs on all hosts at a time; the longest unused make room for others.

    Parameters
    ----------
    name : str
        Its name; the first to open it makes it.
    pool : Pool, optional
        The pool; by default that of `connect`.
    page : int
        Bytes of the longest page, 16 MiB at most. Where it is made.
    pages : int
        How many of those it holds, about. Where it is made.
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
    time, and never come in part. **Cost** of a batch: as for `Store.exists`, `Store.get_many` and `Store.put_many`.
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
        self.name = name
        if not 0 < page <= _PAGE_MAX or pages <= 0:
            raise ValueError(f"a cache has at least one page, of 1 to {_PAGE_MAX} bytes")
        terms = {_ATTRIBUTE: f"page={page},pages={pages}".encode()}
        length = _store_len(page, pages)
        self._store = Store(name, pool=pool, bytes=length, entries=pages, place=place, attributes=terms, trust=trust)
        if not exist_ok and not self._store.created:
            raise NameTaken(f"there is a cache '{name}'")
        self.page_len, self.capacity = _terms_of(self._store)

    def exists(self, keys: Sequence[str | bytes | int]) -> list[bool]:
        """Say of each key whether its page is there. Counts as a use."""
        return self._store.exists(keys)

    def prefix(self, keys: Sequence[str | bytes | int]) -> int:
        """Return how many keys, from the first on, have their pages there."""
        return self._store.prefix(keys)

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
        return [length or 0 for length in self._store.get_many(keys, [_bytes(each) for each in into])]

    def put(self, keys: Sequence[str | bytes | int], pages: Sequence[Any]) -> list[bool]:
        """Write each key's page, unless it is there. A key that stands twice gets the first page.

        Returns
        -------
        list of bool
            Whether each page is there. ``False``: there was no room, because others were writing all pages that could leave.

        Raises
        ------
        ValueError
            Another number of pages, an empty one, or one longer than `page_len`.
        """
        views = [_bytes(each) for each in pages]
        if len(views) != len(keys):
            raise ValueError(f"{len(keys)} keys, and {len(views)} pages")
        for view in views:
            if not 0 < (length := memoryview(view).nbytes) <= self.page_len:
                raise ValueError(f"a page of {length} bytes; this cache takes 1 to {self.page_len}")
        return self._store.put_many(keys, views, replace=False)

    # The whole.

    def stat(self) -> dict[str, int]:
        """Count pages that it was made for, and that are there."""
        return {"capacity": self.capacity, "pages": len(self._store)}

    def clear(self) -> None:
        """Take all pages away."""
        self._store.clear()

    def close(self) -> None:
        """Give back the memory that this program keeps for its next puts."""
        self._store.give_back()

    def remove(self) -> None:
        """Remove the cache from the pool."""
        self._store.destroy()

    def __reduce__(self) -> Any:
        return _reopen, (self.name, named(self._store._pool))

    def __repr__(self) -> str:
        return f"<hanare.kv.PageCache '{self.name}' of {self.capacity} pages of {self.page_len} bytes>"
