"""``python -m hanare.bench``, or ``hanare bench python``: what calls of the package cost, beside what others need for the same, in turn in one run.

``--quick`` for a smoke run, ``--json`` for one object on standard output. Two nodes of this machine stand for two hosts; peers that are
not installed are named as missing. A ratio says how many times better than the peer: above 1 the pool is.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterator

import numpy as np

from . import _node, _peers
from ._bench_stores import stores
from ._peers import DICT_GETS, DICT_PUTS, HANDED_LEN, HANDED_OVER, LENGTHS, PAGES_GET, PAGES_PUT, PLACE_COUNT, WHERE
from .array import Array
from .dictionary import Dict
from .kv import PageCache
from .pool import Pool, connect

Work = Callable[[], object]


def _seconds(work: Work, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - begun) / count


class Rows:
    """Measures pairs, and keeps what came of it."""

    def __init__(self, is_quick: bool) -> None:
        self.is_quick, self.rows = is_quick, list[dict[str, Any]]()

    def pair(self, case: str, ours: Work, peer: str | None, theirs: Work | None, goal: float | None, count: int = 200) -> None:
        """Measure both in turn; the medians of some rounds stand in the row. Without a goal it is informative."""
        count, rounds = (max(count // 20, 1), 3) if self.is_quick else (count, 7)
        ours()
        if theirs is not None:
            theirs()
        times = [(_seconds(ours, count), _seconds(theirs, count) if theirs is not None else 0.0) for _ in range(rounds)]
        value = statistics.median(each for each, _ in times)
        row = {"case": case, "value": value * 1e6, "unit": "us", "better": "lower"}
        if theirs is not None:
            peer_value = statistics.median(each for _, each in times)
            ratio = peer_value / value
            row |= {"peer": peer, "peer_value": peer_value * 1e6, "ratio": ratio, "goal": goal, "met": None if goal is None else ratio >= goal}
        self.rows.append(row)

    def together(self, case: str, ours: Callable[[int], float], peer: str, theirs: Callable[[int], float], goal: float, count: int) -> None:
        """As `pair`, for work of several processes that tells itself how long each of so many turns took."""
        count, rounds = (max(count // 20, 1), 3) if self.is_quick else (count, 5)
        times = [(ours(count), theirs(count)) for _ in range(rounds)]
        value, peer_value = (statistics.median(each) for each in zip(*times))
        ratio = peer_value / value
        row = {"case": case, "value": value * 1e6, "unit": "us", "better": "lower", "peer": peer, "peer_value": peer_value * 1e6}
        self.rows.append(row | {"ratio": ratio, "goal": goal, "met": ratio >= goal})

    def beside(self, case: str, peer: str, told: float | str, goal: float) -> None:
        """Write down beside a case what a peer that runs by itself measured, in seconds, or why it did not."""
        row = next(row for row in self.rows if row["case"] == case)
        row = {name: row[name] for name in ("case", "value", "unit", "better")} | {"peer": peer}
        if isinstance(told, str):
            self.rows.append({**row, "peer_missing": told, "goal": goal})
            return
        ratio = told * 1e6 / row["value"]
        self.rows.append(row | {"peer_value": told * 1e6, "ratio": ratio, "goal": goal, "met": ratio >= goal})


class Redis:
    """A server of Redis and its client, as far as they are here."""

    def __init__(self) -> None:
        self.client: Any = None
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        try:
            import redis
        except ImportError:
            print("no redis-py: the comparison with it is skipped; pip install redis", file=sys.stderr)
            return
        if shutil.which("redis-server") is None:
            print("no redis-server: the comparison with it is skipped; install redis-server", file=sys.stderr)
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = port = free.getsockname()[1]
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=port)
        for _ in range(200):
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
        raise RuntimeError("redis-server did not answer")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self.client.close()
            self._process.terminate()
            self._process.wait()


def bytes_moved(rows: Rows, pool: Pool, redis: Redis) -> None:
    """Gets and puts of ranges."""
    for place, where in WHERE.items():
        region = pool.create(f"bench.{place[:4]}", 1 << 20, place=place)
        for name, length in LENGTHS.items():
            data, buffer, count = os.urandom(length), bytearray(length), 2000 if length < 1 << 20 else 100
            get: Work | None = None
            put: Work | None = None
            if redis.client is not None:
                redis.client.set("bench", data)
                get, put = lambda: redis.client.get("bench"), lambda data=data: redis.client.set("bench", data)  # type: ignore[misc]
            rows.pair(f"get {name}, {where}", lambda: region.get(0, length), "redis-py", get, 1, count)
            rows.pair(f"get {name} into a buffer, {where}", lambda: region.get_into(0, buffer), None, None, None, count)
            rows.pair(f"put {name}, {where}", lambda: region.put(0, data), "redis-py", put, 1, count)
        region.remove()


def peers(rows: Rows, length: int) -> None:
    """Peers that bring processes of their own; the array that is summed has so many bytes."""
    cases = {row["case"] for row in rows.rows}
    for peer in _peers.peers(length):
        if not cases & set(peer.goals):
            continue
        told = _peers.measured(peer, length, rows.is_quick)
        for case, goal in peer.goals.items():
            if case not in cases:
                continue
            rows.beside(case, peer.name, told if isinstance(told, str) else told.get(case, "it did not measure that"), goal)


def pages(rows: Rows, pool: Pool, redis: Redis) -> None:
    """Batches of 32 pages of 256 KiB, beside gets and puts without an index, and redis."""
    length, keys = 256 << 10, [f"page {number}" for number in range(32)]
    cache = PageCache("bench.pages", pool=pool, page=length, pages=256, place="node=1")
    bare = pool.create("bench.bare", 32 * length, place="node=1")
    data, into = np.random.default_rng(1).integers(0, 255, (32, length), np.uint8), np.empty((32, length), np.uint8)
    places = [number * length for number in range(32)]
    cache.put(keys, list(data))
    turn = iter(range(1 << 40))

    def put() -> None:
        # Other keys each time: a page that is there is not written again.
        number = next(turn)
        assert all(cache.put([f"{number} {key}" for key in keys], list(data)))

    def get() -> None:
        assert all(cache.get(keys, list(into)))

    def bare_get() -> None:
        pool._native.get_each([(bare.native, place, row) for place, row in zip(places, into)])

    def bare_put() -> None:
        pool._native.put_each([(bare.native, place, row) for place, row in zip(places, data)])

    cases = [(PAGES_GET, get, bare_get, 0.7), (PAGES_PUT, put, bare_put, 0.7)]
    for case, ours, theirs, goal in cases:
        cache.put(keys, list(data))
        rows.pair(case, ours, f"bare {'gets' if ours is get else 'puts'} of one batch", theirs, goal, 20)
    if redis.client is not None:
        redis.client.mset(dict(zip(keys, map(bytes, data))))

        def redis_get() -> None:
            # A value is a `bytes`: into the caller's buffer goes a copy.
            for row, page in zip(into, redis.client.mget(keys)):
                row[:] = np.frombuffer(page, np.uint8)

        cache.put(keys, list(data))
        rows.pair(PAGES_GET, get, "redis-py, mget", redis_get, 1, 10)
        rows.pair(PAGES_PUT, put, "redis-py, mset", lambda: redis.client.mset(dict(zip(keys, (row.data for row in data)))), 1, 10)
    cache.remove()
    bare.remove()


def dictionaries(rows: Rows, pool: Pool, redis: Redis) -> None:
    """Keys set and looked up."""
    manager = multiprocessing.Manager()
    theirs, value = manager.dict(), os.urandom(1024)
    for place in WHERE:
        ours = Dict(f"bench.dict.{place[:4]}", pool=pool, place=place)
        peers: list[tuple[str, Any]] = [("Manager().dict()", theirs)]
        if redis.client is not None:
            peers.append(("redis-py", redis.client))
        for peer, other in peers:
            ours["key"] = other["key"] = value
            rows.pair(DICT_GETS[place], lambda: ours["key"], peer, lambda: other["key"], 3, 1000)
            set_ours, set_theirs = (lambda: ours.__setitem__("key", value)), (lambda: other.__setitem__("key", value))
            rows.pair(DICT_PUTS[place], set_ours, peer, set_theirs, 3, 1000)
        if place == "local":
            _beside_lmdb(rows, ours, value)
        _by_many(rows, ours, place, [(peer, redis.port if other is redis.client else other) for peer, other in peers])
        ours.remove()
    manager.shutdown()


def _beside_lmdb(rows: Rows, ours: Dict, value: bytes) -> None:
    """A database in a file of this host's memory, which readers map: a transaction for each read and each write, none of which is synced."""
    get, put = (lambda: ours["key"]), (lambda: ours.__setitem__("key", value))
    try:
        import lmdb
    except ImportError:
        for case in (DICT_GETS["local"], DICT_PUTS["local"]):
            rows.beside(case, "lmdb", "pip install lmdb", 1)
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, lmdb.open(folder, map_size=64 << 20, sync=False) as base:

        def read() -> object:
            with base.begin() as transaction:
                return transaction.get(b"key")

        def write() -> None:
            with base.begin(write=True) as transaction:
                transaction.put(b"key", value)

        write()
        rows.pair(DICT_GETS["local"], get, "lmdb", read, 1, 1000)
        rows.pair(DICT_PUTS["local"], put, "lmdb", write, None, 1000)


#: Processes that use a dictionary at a time.
_MANY = 8


def _use(number: int, orders: Any, told: Any, meet: Any, socket: str, name: str) -> None:
    """One of many processes: gets and puts of a key of its own, in the dictionary of that name and in those that it is told of."""
    ours, value, key = Dict(name, pool=connect(socket)), os.urandom(1024), f"key {number}"
    while (order := orders.recv()) is not None:
        where, what, count = order
        if where is None:
            one: Any = ours
        elif isinstance(where, int):
            import redis

            one = redis.Redis(port=where)
        else:
            one = where
        one[key] = value
        work: Work = (lambda: one[key]) if what == "get" else (lambda: one.__setitem__(key, value))
        work()
        meet.wait()
        begun = time.perf_counter()
        _seconds(work, count)
        meet.wait()
        told.send(time.perf_counter() - begun)


def _by_many(rows: Rows, ours: Dict, place: str, peers: list[tuple[str, Any]]) -> None:
    """Eight processes at a time: seconds for an operation are those of all, by how many operations all of them did."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hanare"])
    meet, processes, ends = context.Barrier(_MANY), [], []
    for number in range(_MANY):
        (orders, asks), (tells, told) = context.Pipe(duplex=False), context.Pipe(duplex=False)
        processes.append(context.Process(target=_use, args=(number, orders, told, meet, ours._pool.socket, ours.name)))
        processes[-1].start()
        ends.append((asks, tells))

    def turns(where: Any, what: str, count: int) -> float:
        for asks, _ in ends:
            asks.send((where, what, count))
        return max(tells.recv() for _, tells in ends) / (count * _MANY)

    for peer, other in peers:
        for what, cases in (("get", DICT_GETS), ("put", DICT_PUTS)):
            case = f"{cases[place]}, {_MANY} processes"
            rows.together(case, lambda count: turns(None, what, count), peer, lambda count: turns(other, what, count), 3, 400)
    for asks, _ in ends:
        asks.send(None)
    for process in processes:
        process.join()


def arrays(rows: Rows, pool: Pool, length: int) -> None:
    """Sums and elements of an array of another node, beside fetching it whole."""
    far: Array = pool.zeros(length // 8, "f8", name="bench.array", place="node=1")
    far[...] = 0.5
    places = np.random.default_rng(1).integers(0, far.size, PLACE_COUNT)
    works = (
        (lambda: far[::16].sum(), lambda: far.get()[::16].sum()),
        (lambda: far[places], lambda: far.get()[places]),
        (lambda: far.sum(), lambda: far.get().sum()),
    )
    for case, (ours, theirs) in zip(_peers.sums(length), works):
        rows.pair(case, ours, "fetched whole", theirs, 5, 3)
    far.remove()


def _receive(inbox: Any, outbox: Any) -> None:
    while (array := inbox.get()) is not None:
        outbox.put(float(array[7]))


def handed_over(rows: Rows, pool: Pool) -> None:
    """An array from one process to another, and a number back."""
    context = multiprocessing.get_context("spawn")
    outward, back = context.Queue(), context.Queue()
    process = context.Process(target=_receive, args=(outward, back))
    process.start()
    shared = pool.zeros(HANDED_LEN // 8, "f8", name="bench.handed")
    plain = np.zeros(HANDED_LEN // 8)

    def pass_on(array: Any) -> object:
        outward.put(array)
        return back.get()

    work, peer = (lambda: pass_on(shared)), (lambda: pass_on(plain))
    rows.pair(HANDED_OVER, work, "the array by multiprocessing.Queue", peer, 5, 3)
    outward.put(None)
    process.join()
    shared.remove()


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows as people read them."""
    for row in rows:
        told = f"{row['case']:<44}{row['value']:>12.1f} us"
        if "peer_missing" in row:
            told += f"   {row['peer']}: not measured, {row['peer_missing']}"
        elif "peer" in row:
            told += f"   {row['peer']}: {row['peer_value']:.1f} us   {row['ratio']:.2f}x"
            told += "" if row["goal"] is None else f", goal {row['goal']}{'' if row['met'] else '  missed'}"
        yield told


def main() -> None:
    """Run all of it."""
    words = argparse.ArgumentParser(prog="python -m hanare.bench", description=__doc__)
    words.add_argument("--quick", action="store_true", help="a smoke run")
    words.add_argument("--json", action="store_true", help="print one JSON object")
    words.add_argument("--only", choices=["bytes", "pages", "dictionaries", "stores", "arrays", "handed"], help="one part of it, and the peers")
    given = words.parse_args()
    length = (16 if given.quick else 1024) << 20
    nodes = _node.Nodes(2, length + (256 << 20))
    os.environ["HANARE_NODE"] = nodes.sockets[0]
    pool, rows, redis = connect(), Rows(given.quick), Redis()
    try:
        parts: dict[str, Work] = {
            "bytes": lambda: bytes_moved(rows, pool, redis),
            "pages": lambda: pages(rows, pool, redis),
            "dictionaries": lambda: dictionaries(rows, pool, redis),
            "stores": lambda: stores(rows, pool, redis),
            "arrays": lambda: arrays(rows, pool, length),
            "handed": lambda: handed_over(rows, pool),
        }
        for name, part in parts.items():
            if given.only in (None, name):
                part()
        peers(rows, length)
    finally:
        redis.stop()
        nodes.stop()
    if given.json:
        machine = {"cpus": os.cpu_count(), "python": sys.version.split()[0], "numpy": np.__version__}
        print(json.dumps({"bench": "python", "machine": machine, "rows": rows.rows, "claims": []}))
    else:
        print("\n".join(lines(rows.rows)))


if __name__ == "__main__":
    main()
