"""``python -m hanare.bench``: what calls of the package cost, beside what others need for the same, in turn in one run.

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
import time
from typing import Any, Callable, Iterator

import numpy as np

from . import _node, _peers
from ._peers import PAGES_GET, PAGES_PUT
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

    def pair(self, case: str, ours: Work, peer: str | None, theirs: Work | None, goal: float, count: int = 200) -> None:
        """Measure both in turn; the medians of some rounds stand in the row."""
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
            row |= {"peer": peer, "peer_value": peer_value * 1e6, "ratio": ratio, "goal": goal, "met": ratio >= goal}
        self.rows.append(row)

    def beside(self, case: str, peer: str, told: float | str, goal: float) -> None:
        """Write down beside a case what a peer that runs by itself measured, in seconds, or why it did not."""
        row = next(row for row in self.rows if row["case"] == case)
        row = {name: row[name] for name in ("case", "value", "unit", "better")} | {"peer": peer}
        if isinstance(told, str):
            self.rows.append({**row, "peer_missing": told})
            return
        ratio = told * 1e6 / row["value"]
        self.rows.append(row | {"peer_value": told * 1e6, "ratio": ratio, "goal": goal, "met": ratio >= goal})


class Redis:
    """A server of Redis and its client, as far as they are here."""

    def __init__(self) -> None:
        self.client: Any = None
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
            port = free.getsockname()[1]
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


def _name_of(length: int) -> str:
    return f"{length >> 20} MiB" if length >> 20 else f"{length >> 10} KiB" if length >> 10 else f"{length} B"


def bytes_moved(rows: Rows, pool: Pool, redis: Redis) -> None:
    """Gets and puts of ranges."""
    for place, where in (("local", "this host"), ("node=1", "other node, tcp")):
        region = pool.create(f"bench.{place[:4]}", 1 << 20, place=place)
        for length in (8, 4096, 1 << 20):
            data, count = os.urandom(length), 2000 if length < 1 << 20 else 100
            get: Work | None = None
            put: Work | None = None
            if redis.client is not None:
                redis.client.set("bench", data)
                get, put = lambda: redis.client.get("bench"), lambda data=data: redis.client.set("bench", data)  # type: ignore[misc]
            rows.pair(f"get {_name_of(length)}, {where}", lambda: region.get(0, length), "redis-py", get, 1, count)
            rows.pair(f"put {_name_of(length)}, {where}", lambda: region.put(0, data), "redis-py", put, 1, count)
        region.remove()


def peers(rows: Rows) -> None:
    """Peers of gets and puts, and of pages, that bring processes of their own."""
    for peer, program in _peers.PROGRAMS.items():
        told = _peers.measured(program, rows.is_quick)
        for case in _peers.CASES[peer]:
            rows.beside(case, peer, told if isinstance(told, str) else told.get(case, "it did not measure that"), 1)


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
        pool._native.get_each(bare.native, places, list(into))

    def bare_put() -> None:
        pool._native.put_each(bare.native, places, list(data))

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
    for place, where in (("local", "this host"), ("node=1", "other node, tcp")):
        ours = Dict(f"bench.dict.{place[:4]}", pool=pool, place=place)
        peers: list[tuple[str, Any]] = [("Manager().dict()", theirs)]
        if redis.client is not None:
            peers.append(("redis-py", redis.client))
        for peer, other in peers:
            ours["key"] = other["key"] = value
            rows.pair(f"Dict get 1 KiB, {where}", lambda: ours["key"], peer, lambda: other["key"], 3, 1000)
            set_ours, set_theirs = (lambda: ours.__setitem__("key", value)), (lambda: other.__setitem__("key", value))
            rows.pair(f"Dict put 1 KiB, {where}", set_ours, peer, set_theirs, 3, 1000)
        ours.remove()
    manager.shutdown()


def arrays(rows: Rows, pool: Pool, length: int) -> None:
    """Sums and elements of an array of another node, beside fetching it whole."""
    far: Array = pool.zeros(length // 8, "f8", name="bench.array", place="node=1")
    far[...] = 0.5
    places = np.random.default_rng(1).integers(0, far.size, 10_000)
    for name, ours, theirs in (
        ("a[::16].sum()", lambda: far[::16].sum(), lambda: far.get()[::16].sum()),
        ("a[idx], 10000 places", lambda: far[places], lambda: far.get()[places]),
        ("a.sum()", lambda: far.sum(), lambda: far.get().sum()),
    ):
        rows.pair(f"{name} of {_name_of(length)}, other node", ours, "fetched whole", theirs, 5, 3)
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
    shared = pool.zeros(8 << 20, "f8", name="bench.handed")
    plain = np.zeros(8 << 20)

    def pass_on(array: Any) -> object:
        outward.put(array)
        return back.get()

    work, peer = (lambda: pass_on(shared)), (lambda: pass_on(plain))
    rows.pair("64 MiB array to another process", work, "the array by multiprocessing.Queue", peer, 5, 3)
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
            mark = "" if row["met"] else "  missed"
            told += f"   {row['peer']}: {row['peer_value']:.1f} us   {row['ratio']:.2f}x, goal {row['goal']}{mark}"
        yield told


def main() -> None:
    """Run all of it."""
    words = argparse.ArgumentParser(prog="python -m hanare.bench", description=__doc__)
    words.add_argument("--quick", action="store_true", help="a smoke run")
    words.add_argument("--json", action="store_true", help="print one JSON object")
    given = words.parse_args()
    length = (16 if given.quick else 1024) << 20
    nodes = _node.Nodes(2, length + (256 << 20))
    os.environ["HANARE_NODE"] = nodes.sockets[0]
    pool, rows, redis = connect(), Rows(given.quick), Redis()
    try:
        bytes_moved(rows, pool, redis)
        pages(rows, pool, redis)
        dictionaries(rows, pool, redis)
        arrays(rows, pool, length)
        handed_over(rows, pool)
        peers(rows)
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
