"""Pages of LLM servers in a store: a page that cannot be had in time is absent, and a page that finds no room is told so at once.

`hanare.lmcache` and `hanare.vllm` are two interfaces to it. A server computes an absent page itself, so no call raises what a pool reports.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .errors import Error
from .pool import connect

__all__ = ["Pages"]

_log = logging.getLogger(__name__)

#: Settings of a server's file, and what they are by default.
_DEFAULTS: dict[str, Any] = {
    "name": "kv",
    "bytes": 1 << 30,
    "evict": "lru",
    "entries": None,
    "place": "local",
    "copies": 1,
    "socket": None,
    "trust": None,
    "deadline": 2.0,
    "threads": 4,
}

#: Threads of a server for loads, and as many for stores: an index of the pool serves so many at a time.
_THREADS_MAX = 64
#: Keys of one call of a store job. Others see the first pages before the last one is there.
_STORED_AT_ONCE = 64


class Pages:
    """A store of pages by text keys, and the threads that load and store for a server.

    Parameters
    ----------
    settings : mapping
        ``name``, ``bytes``, ``evict``, ``entries``, ``place``, ``copies`` and ``trust`` as for `hanare.Store`; ``socket`` as for `hanare.connect`;
        ``deadline``, seconds of a lookup or a load; ``threads`` for loads, and as many for stores.

    Raises
    ------
    ValueError
        A setting that is not known, or makes no sense.
    hanare.errors.Error
        The store can be neither opened nor made.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        odd = sorted(set(settings) - set(_DEFAULTS))
        if odd:
            raise ValueError(f"no setting of hanare is called {', '.join(odd)}; there are {', '.join(_DEFAULTS)}")
        told = {**_DEFAULTS, **settings}
        self.deadline, threads = float(told["deadline"]), int(told["threads"])
        if not 0 < self.deadline < 1e6 or not 0 < threads <= _THREADS_MAX:
            raise ValueError(f"a deadline is more than 0 s, and threads are 1 to {_THREADS_MAX}")
        of_store = {each: told[each] for each in ("bytes", "evict", "entries", "place", "copies", "trust")}
        self.store = connect(told["socket"]).store(str(told["name"]), **of_store)
        # A load has a request waiting for it, so loads never stand behind stores.
        self.loads = ThreadPoolExecutor(threads, thread_name_prefix="hanare-load")
        self.stores = ThreadPoolExecutor(threads, thread_name_prefix="hanare-store")
        self._lock = threading.Lock()
        self._counts = {"hits": 0, "misses": 0, "stored": 0, "full": 0, "errors": 0}

    def _count(self, **more: int) -> None:
        with self._lock:
            for what, count in more.items():
                self._counts[what] += count

    def counts(self) -> dict[str, int]:
        """Count pages that loads found and did not find, that were stored, that found no room, and calls that the pool refused."""
        with self._lock:
            return dict(self._counts)

    def _failed(self, what: str, error: Exception) -> None:
        self._count(errors=1)
        _log.warning("hanare: %s: %s", what, error)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Say of each key whether its page is there. After the deadline none is."""
        try:
            return self.store.exists(keys, deadline=self.deadline)
        except (Error, ConnectionError) as error:
            self._failed("pages are taken for absent", error)
            return [False] * len(keys)

    def prefix(self, keys: Sequence[str]) -> int:
        """Count keys, from the first on, whose pages are there. After the deadline none is."""
        try:
            return self.store.prefix(keys, deadline=self.deadline)
        except (Error, ConnectionError) as error:
            self._failed("pages are taken for absent", error)
            return 0

    def load(self, keys: Sequence[str], into: Sequence[Any]) -> list[int]:
        """Read pages into buffers; say of each how many bytes it has, 0 where it is absent. After the deadline all are.

        Raises
        ------
        ValueError
            A page is longer than its buffer.
        """
        try:
            found = [length or 0 for length in self.store.get_many(keys, into, deadline=self.deadline)]
        except (Error, ConnectionError) as error:
            self._failed("pages are taken for absent", error)
            found = [0] * len(keys)
        hits = sum(map(bool, found))
        self._count(hits=hits, misses=len(found) - hits)
        return found

    def keep(self, keys: Sequence[str], pages: Sequence[Any]) -> list[bool]:
        """Write the pages that are not there; say of each whether it is there now. ``False``: there was no room, or the pool refused."""
        done: list[bool] = []
        for at in range(0, len(keys), _STORED_AT_ONCE):
            some = slice(at, at + _STORED_AT_ONCE)
            done += self._keep_some(keys[some], pages[some])
        return done

    def _keep_some(self, keys: Sequence[str], pages: Sequence[Any]) -> list[bool]:
        try:
            there = self.store.exists(keys, deadline=self.deadline)
            new = [at for at, is_there in enumerate(there) if not is_there]
            for at, is_done in zip(new, self.store.put_many([keys[at] for at in new], [pages[at] for at in new])):
                there[at] = is_done
        except (Error, ConnectionError) as error:
            self._failed("pages are not stored", error)
            return [False] * len(keys)
        self._count(stored=sum(there[at] for at in new), full=sum(not there[at] for at in new))
        return there

    def pin(self, key: str, seconds: float) -> bool:
        """Keep a page from leaving for so long; say whether it was there."""
        try:
            return self.store.pin(key, seconds)
        except (Error, ConnectionError) as error:
            self._failed("a page is not pinned", error)
            return False

    def unpin(self, key: str) -> bool:
        """End all pins of a page; say whether it was there."""
        try:
            return self.store.unpin(key)
        except (Error, ConnectionError) as error:
            self._failed("a page stays pinned until its pin ends", error)
            return False

    def remove(self, key: str) -> bool:
        """Take a page away; say whether it was there."""
        try:
            return self.store.remove(key)
        except (Error, ConnectionError) as error:
            self._failed("a page is not removed", error)
            return False

    def close(self) -> None:
        """Wait for the loads and stores that were begun, and end the threads. Pages stay."""
        self.loads.shutdown(wait=True)
        self.stores.shutdown(wait=True)
