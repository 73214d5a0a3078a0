"""The bench's rows of stores: values put and got on this host and on the other, beside redis and lmdb; Mooncake runs by itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._peers import STORE_GETS, STORE_LENGTHS, STORE_PUTS, STORED, WHERE
from .pool import Pool
from .store import Store

if TYPE_CHECKING:
    from .bench import Redis, Rows

#: Bytes of a store. A program keeps 1/64 of them for its next puts.
_BYTES = 128 << 20
#: Times that a call is made in a round.
_COUNTS = {4096: 1000, 64 << 10: 300, 1 << 20: 40}


class _Calls:
    """Gets and puts of ours, of one length. Puts go round some keys."""

    def __init__(self, store: Store, length: int) -> None:
        self.data, self.into, self._store, self._turn = os.urandom(length), bytearray(length), store, 0
        for number in range(STORED):
            store.put(f"{number}", self.data)

    def key(self) -> str:
        self._turn += 1
        return f"{self._turn % STORED}"

    def get(self) -> None:
        assert self._store.get_into(self.key(), self.into) == len(self.into)

    def put(self) -> None:
        self._store.put(self.key(), self.data)


def stores(rows: Rows, pool: Pool, redis: Redis) -> None:
    """One value after another, of three lengths."""
    for place in WHERE:
        for length, name in STORE_LENGTHS.items():
            store = pool.store(f"bench.store.{place[:4]}", bytes=_BYTES, place=place)
            ours, count = _Calls(store, length), _COUNTS[length]
            get, put = STORE_GETS[place, length], STORE_PUTS[place, length]
            if redis.client is not None:
                _beside_redis(rows, get, put, ours, redis.client, count)
            else:
                rows.pair(get, ours.get, None, None, None, count)
                rows.pair(put, ours.put, None, None, None, count)
            if place == "local":
                _beside_lmdb(rows, get, put, ours, count)
            store.destroy()


def _beside_redis(rows: Rows, get: str, put: str, ours: _Calls, client: Any, count: int) -> None:
    client.mset({f"{number}": ours.data for number in range(STORED)})
    rows.pair(get, ours.get, "redis-py", lambda: client.get(ours.key()), 1, count)
    rows.pair(put, ours.put, "redis-py", lambda: client.set(ours.key(), ours.data), 1, count)
    client.flushall()


def _beside_lmdb(rows: Rows, get: str, put: str, ours: _Calls, count: int) -> None:
    """A database in a file of this host's memory: a transaction for each read and each write, none of which is synced."""
    try:
        import lmdb
    except ImportError:
        rows.beside(get, "lmdb", "pip install lmdb", 1)
        rows.beside(put, "lmdb", "pip install lmdb", 1)
        return
    room = 8 * STORED * (len(ours.data) + 4096)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, lmdb.open(folder, map_size=room, sync=False) as base:

        def read() -> None:
            with base.begin(buffers=True) as transaction:
                ours.into[:] = transaction.get(ours.key().encode())

        def write() -> None:
            with base.begin(write=True) as transaction:
                transaction.put(ours.key().encode(), ours.data)

        for _ in range(STORED):
            write()
        work: Callable[[], Any]
        for case, work, theirs in ((get, ours.get, read), (put, ours.put, write)):
            rows.pair(case, work, "lmdb", theirs, 1, count)
