"""Stores: values by keys that leave to make room, from one program, many, and a child made by fork."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import numpy as np
import pytest

import hanare
from hanare import _node, errors

PLACES = ["local", "node=1", "interleave=64KiB"]


@pytest.fixture(params=PLACES)
def store(pool: hanare.Pool, name: str, request: Any) -> Iterator[hanare.Store]:
    made = pool.store(name, bytes=4 << 20, evict="lru", place=request.param)
    yield made
    made.destroy()


def value(key: int, length: int = 5000) -> bytes:
    """Bytes that say which key they are of."""
    return random.Random(key).randbytes(length)


def test_values_come_back_one_by_one_and_in_batches(store: hanare.Store, beside: hanare.Pool) -> None:
    other = beside.store(store.name)
    store.put("text", b"short")
    store.put(("a", 1), np.arange(2000.0))
    assert other.get("text") == b"short" and other.get(b"text") is None and "text" in other and b"text" not in other
    into = np.zeros(2000)
    assert other.get_into(("a", 1), into) == 16000 and (into == np.arange(2000.0)).all()
    keys = list(range(100))
    assert other.put_many(keys, [value(key) for key in keys]) == [True] * 100
    assert store.exists([3, "none", 4]) == [True, False, True] and store.prefix([*keys, "none", "text"]) == 100
    buffers = np.zeros((101, 6000), np.uint8)
    assert store.get_many([*keys, "none"], list(buffers)) == [5000] * 100 + [None]
    assert all(buffer[:5000].tobytes() == value(key) for key, buffer in zip(keys, buffers)) and not buffers[100].any()
    assert set(store) == {"text", ("a", 1), *keys} and len(other) == 102
    assert store.remove("text") and not other.remove("text") and other.get("text") is None
    assert pickle.loads(pickle.dumps(store)).name == store.name and other.evict == "lru"
    assert other.put_many([3, 3, 500], [b"", value(3), value(500, 70000)]) == [True] * 3 and store.get(3) == value(3)
    assert store.remove_many([4, "none", 3, 500]) == [True, False, True, True] and other.exists([3, 4, 5, 500]) == [False, False, True, False]
    store.clear()
    assert len(other) == 0 and store.put_many([], []) == store.exists([]) == store.remove_many([]) == []


def test_keys_end_and_pins_hold(store: hanare.Store, beside: hanare.Pool) -> None:
    other = beside.store(store.name)
    store.put("short", b"1", ttl=0.001)
    store.put("long", b"2", ttl=100)
    store.put("ever", b"3")
    time.sleep(0.01)
    assert other.get("short") is None and other.get("long") == b"2"
    assert 0 < (other.ttl("long") or 0) <= 100 and other.ttl("ever") is None
    with pytest.raises(KeyError):
        other.ttl("short")
    assert other.expire("ever", 0) and store.get("ever") is None and not store.expire("ever", 5)
    assert store.expire("long", None) and store.ttl("long") is None
    for key in range(20):
        store.put(key, value(key))
        assert store.pin(key, 600)
    for key in range(1000, 2500):
        store.put(key, value(key))
        assert store.get(key) == value(key)
    assert [other.get(key) for key in range(20)] == [value(key) for key in range(20)]
    # Any one of them may stay: a random sample chooses.
    left = next(key for key in range(1000, 2500) if store.get(key) is None)
    assert len(store) < 900 and not store.pin(left, 1) and store.unpin(0) and not store.unpin("none")
    stat = store.stat()
    assert 3 << 20 < stat["linked"] <= stat["bytes"] == 4 << 20


def test_a_watch_ends_with_each_change(store: hanare.Store, beside: hanare.Pool) -> None:
    other = beside.store(store.name)
    assert store.stamp("a") == 0 and store.watch("a", deadline=0.01) is None
    with ThreadPoolExecutor() as threads:
        for change in (lambda: other.put("a", b"1"), lambda: other.put("a", value(2)), lambda: other.expire("a", 0.05)):
            since = store.stamp("a")
            watch = threads.submit(store.watch, "a", since=since, deadline=30)
            other.put("b", b"beside")
            change()
            assert watch.result() == store.stamp("a") != since
        other.put("a", b"3")
        assert store.watch("a", since=0) == store.stamp("a")
        watch = threads.submit(store.watch, "a")
        while not watch.done():
            # The call takes the value that it finds for that of before.
            other.remove("a")
            other.put("a", value(4))
    for odd in (-1, float("nan")):
        with pytest.raises(ValueError):
            store.watch("a", deadline=odd)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(KeyboardInterrupt):
        store.watch("a")
    signal.signal(signal.SIGALRM, before)


def test_a_full_store_says_so_at_once(pool: hanare.Pool, name: str) -> None:
    store = pool.store(name, bytes=1 << 20, evict="ttl")
    begun, count = time.monotonic(), 0
    with pytest.raises(errors.HeapFull):
        for count in range(1000):
            store.put(count, value(count))
    assert 100 < count < 220 and time.monotonic() - begun < 20
    assert store.put_many(["a", "b"], [value(1), b""]) == [False, True]
    with pytest.raises(errors.LimitReached):
        store.put("long", bytes(2 << 20))
    store.destroy()


def test_a_store_is_a_namespace_with_its_own_memory(pool: hanare.Pool, name: str) -> None:
    kv = pool.store(f"{name}.kv", bytes=1 << 20, attributes={"of": b"team"})
    sessions = pool.store(f"{name}.sessions", bytes=1 << 16, evict="ttl", mode=0o640)
    assert kv.created and kv.attribute("of") == b"team" and kv.attribute("other") is None
    assert not pool.store(f"{name}.kv").created
    sessions.put("a", b"1")
    # Of a batch that is longer than the store, some keys find no room.
    assert 150 < kv.put_many(list(range(250)), [value(key) for key in range(250)]).count(True) <= 250
    assert kv.put_many(list(range(300, 400)), [value(key) for key in range(300, 400)]) == [True] * 100
    assert kv.get("a") is None and sessions.get("a") == b"1" and len(sessions) == 1 and len(kv) < 210
    assert {row["name"] for row in pool.ls(f"{name}.")} >= {kv.name, sessions.name}
    with pytest.raises(errors.BadName):
        pool.store("team/kv")
    kv.destroy()
    assert sessions.get("a") == b"1"
    sessions.destroy()


def test_what_makes_no_sense_is_refused(pool: hanare.Pool, name: str) -> None:
    for odd in ({"evict": "fifo"}, {"bytes": 10}, {"place": "moon"}):
        with pytest.raises(errors.Error):
            pool.store(name, **odd)
    store = pool.store(name)
    store.put("a", b"x" * 100)
    with pytest.raises(ValueError):
        store.get_into("a", bytearray(99))
    with pytest.raises(BufferError):
        store.get_into("a", bytes(100))
    both = np.zeros(200, np.uint8)
    with pytest.raises(ValueError):
        store.get_many(["a", "a"], [both, both[50:]])
    for keys, values in ((["a"], []), ([], [b"a"])):
        with pytest.raises(ValueError):
            store.put_many(keys, values)
        with pytest.raises(ValueError):
            store.get_many(keys, [bytearray(each) for each in values])
    for seconds in (-1, float("nan")):
        with pytest.raises(ValueError):
            store.put("a", b"", ttl=seconds)
    with pytest.raises(TypeError):
        store.put([1], b"")
    with pytest.raises(errors.BadAttributes):
        hanare.Dict(name, pool=pool)
    hanare.Dict(name + ".dict", pool=pool)
    with pytest.raises(errors.BadAttributes):
        pool.store(name + ".dict")
    store.destroy()


def work(name: str, seed: int, steps: int) -> None:
    store, dice = hanare.Store(name), random.Random(seed)
    for _ in range(steps):
        key = dice.randrange(2000)
        store.put(key, value(key))
        other = dice.randrange(2000)
        assert store.get(other) in (None, value(other)), "a value is its key's, whole"


def test_many_programs_and_killed_ones(store: hanare.Store) -> None:
    context = multiprocessing.get_context("fork")
    killed = context.Process(target=work, args=(store.name, 9, 10**9))
    writers = [context.Process(target=work, args=(store.name, seed, 1000)) for seed in range(2)]
    [writer.start() for writer in (killed, *writers)]
    [writer.join() for writer in writers]
    assert [writer.exitcode for writer in writers] == [0, 0] and killed.pid is not None and killed.is_alive()
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert all(store.get(key) in (None, value(key)) for key in range(2000))
    store.sweep()
    assert store.stat()["unlinked"] == 0


def test_a_child_made_by_fork_goes_on(store: hanare.Store) -> None:
    store.put("a", b"parent")
    number = os.fork()
    if number == 0:
        is_right = store.get("a") == b"parent"
        store.put("b", value(7))
        os._exit(0 if is_right else 1)
    assert os.waitpid(number, 0)[1] == 0 and store.get("b") == value(7)


def test_a_get_after_its_deadline_is_a_miss() -> None:
    nodes = _node.Nodes(2, "64MiB")
    pool = hanare.connect(nodes.sockets[0])
    store = pool.store("far", bytes=1 << 20, place="node=1")
    store.put("a", value(1), deadline=20)
    into = bytearray(5000)
    assert store.get("a", deadline=20) == value(1) and store.get_into("a", into, deadline=20) == 5000 and into == value(1)
    os.kill(nodes.processes[1].pid, signal.SIGSTOP)
    os.waitpid(nodes.processes[1].pid, os.WUNTRACED)
    into, begun = bytearray(5000), time.monotonic()
    assert store.get("a", deadline=0.01) is None and store.get_many(["a"], [into], deadline=0.01) == [None] and into == bytes(5000)
    assert store.exists(["a"], deadline=0.01) == [False] and store.prefix(["a"], deadline=0.01) == 0
    with pytest.raises(errors.Timeout):
        store.put("b", b"b", deadline=0.01)
    assert time.monotonic() - begun < 9, "a call that waits for its answer takes 10 s"
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    with pytest.raises((errors.Error, ConnectionError)):
        store.get("a")
    nodes.stop()
