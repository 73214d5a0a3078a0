"""Pages by key: batches, eviction, many writers. What a killed program leaves is the store's matter."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import threading
import time
from typing import Any, Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hanare
from hanare import _node, errors
from hanare.kv import PageCache

PAGE = 8192


@pytest.fixture(params=["local", "node=1", "interleave=64KiB"])
def cache(pool: hanare.Pool, name: str, request: Any) -> Iterator[PageCache]:
    made = PageCache(name, pool=pool, page=PAGE, pages=64, place=request.param)
    yield made
    made.remove()


def page(key: Any, length: int = PAGE) -> bytes:
    """A page whose bytes say which key it is of."""
    return random.Random(repr(key)).randbytes(length)


def test_a_batch_comes_back_into_the_callers_buffers(cache: PageCache, beside: hanare.Pool) -> None:
    keys = ["text", b"text", 7, *(f"key {number}" for number in range(20))]
    assert cache.exists(keys) == [False] * 23
    assert cache.put(keys, [page(key) for key in keys]) == [True] * 23
    there = PageCache(cache.name, pool=beside)
    assert there.page_len == PAGE and there.prefix([*keys, "none", "text"]) == 23
    whole = np.zeros((24, PAGE // 8), np.float64)
    assert there.get([*keys, "none"], list(whole)) == [PAGE] * 23 + [0]
    assert [row.tobytes() for row in whole[:23]] == [page(key) for key in keys] and not whole[23].any()
    assert cache.stat() == {"capacity": 64, "pages": 23}
    # A page is shorter than its buffer, and a key's page stays what it is, also within a batch.
    assert cache.put(["short"], [b"abc"]) == [True] and cache.put(["short"], [b"xyz"]) == [True]
    into = bytearray(10)
    assert cache.get(["short"], [into]) == [3] and into == b"abc" + bytes(7)
    assert cache.put(["twice", "twice"], [b"abc", b"xyz"]) == [True] * 2 and cache.get(["twice"], [into]) == [3] and into[:3] == b"abc"
    cache.clear()
    assert cache.stat()["pages"] == 0 and not any(there.exists(keys))
    assert pickle.loads(pickle.dumps(cache)).capacity == 64
    # It has room for all its pages.
    for first in range(0, 64, 16):
        assert all(there.put(list(range(first, first + 16)), [page(key) for key in range(first, first + 16)]))
    assert cache.prefix(list(range(64))) == 64


def test_what_makes_no_sense_is_refused(cache: PageCache, pool: hanare.Pool, name: str) -> None:
    cache.put(["a"], [b"x" * 100])
    for keys, pages in ((["a", "b"], [b"1"]), (["b"], [b""]), (["b"], [bytes(PAGE + 1)])):
        with pytest.raises(ValueError):
            cache.put(keys, pages)
    with pytest.raises(ValueError):
        cache.get(["a"], [bytearray(99)])
    with pytest.raises(ValueError):
        cache.get(["a"], [])
    with pytest.raises(BufferError):
        cache.get(["a"], [bytes(100)])
    both = np.zeros(PAGE, np.uint8)
    cache.put(["b"], [b"y" * 100])
    with pytest.raises(ValueError):
        cache.get(["a", "b"], [both, both[50:]])
    with pytest.raises(ValueError):
        cache.get(["a"], [both[::2]])
    assert cache.get([], []) == cache.put([], []) == cache.exists([]) == []
    pool.create(name + ".other", 4096)
    with pytest.raises(errors.BadAttributes):
        PageCache(name + ".other", pool=pool)
    with pytest.raises(errors.NameTaken):
        PageCache(cache.name, pool=pool, exist_ok=False)
    pool.store(name + ".store", bytes=1 << 16)
    with pytest.raises(errors.BadAttributes):
        PageCache(name + ".store", pool=pool)
    pool.store(name + ".store").destroy()
    pool.remove(name + ".other")
    for odd in ({"page": 0}, {"pages": 0}, {"page": 17 << 20}):
        with pytest.raises(ValueError):
            PageCache(name + ".odd", pool=pool, **odd)


BATCHES = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 300), max_size=20)), max_size=12)


@given(batches=BATCHES)
def test_what_is_there_is_what_was_put(cache: PageCache, batches: list[tuple[bool, list[int]]]) -> None:
    cache.clear()
    ever: set[int] = set()
    for is_put, keys in batches:
        if is_put:
            done = cache.put(keys, [page(key, 100 + key) for key in keys])
            assert done == [True] * len(keys)
            ever.update(keys)
        buffers = [bytearray(500) for _ in keys]
        for key, length, buffer in zip(keys, cache.get(keys, buffers), buffers):
            assert length in (0, 100 + key) and (key in ever or not length)
            assert buffer[:length] == page(key, length) if length else True
    assert cache.stat()["pages"] <= len(ever)


def test_the_longest_unused_makes_room(cache: PageCache) -> None:
    keys = list(range(64))
    assert all(cache.put(keys, [page(key) for key in keys]))
    # Uses are noted once a second where that takes a message.
    time.sleep(1.1)
    assert cache.prefix([0, 1]) == 2
    for number in range(100, 120, 4):
        assert all(cache.put(list(range(number, number + 4)), [page(key) for key in range(number, number + 4)]))
    assert cache.exists([0, 1]) == [True, True], "they were used"
    assert 20 < cache.exists(keys).count(True) < 64 and cache.exists(list(range(116, 120))) == [True] * 4
    # A batch of more than all pages.
    many = list(range(1000, 1100))
    done = cache.put(many, [page(key) for key in many])
    buffers = [bytearray(PAGE) for _ in many]
    got = cache.get(many, buffers)
    assert len(done) == 100 and 50 < sum(map(bool, got)) < 100
    assert all(buffer == page(key) for key, length, buffer in zip(many, got, buffers) if length)


def write(name: str, seed: int) -> None:
    cache, dice = PageCache(name), random.Random(seed)
    for _ in range(60):
        keys = [dice.randrange(200) for _ in range(10)]
        cache.put(keys, [page(key) for key in keys])
        buffers = [bytearray(PAGE) for _ in keys]
        for key, length, buffer in zip(keys, cache.get(keys, buffers), buffers):
            assert length in (0, PAGE) and (not length or buffer == page(key)), "a page is one writer's, whole"
    cache.close()


def test_many_programs_put_and_get_at_a_time(cache: PageCache) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write, args=(cache.name, seed)) for seed in range(3)]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert 32 < cache.stat()["pages"] <= 80


def test_threads_share_a_cache(cache: PageCache) -> None:
    failed = []

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(20):
            keys = [dice.randrange(100) for _ in range(6)]
            cache.put(keys, [page(key) for key in keys])
            buffers = [bytearray(PAGE) for _ in keys]
            got = cache.get(keys, buffers)
            failed.extend(key for key, length, buffer in zip(keys, got, buffers) if length and buffer != page(key))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed


def test_pages_of_a_lost_node_are_an_error() -> None:
    nodes = _node.Nodes(2, "64MiB")
    pool = hanare.connect(nodes.sockets[0])
    cache = PageCache("lost", pool=pool, page=PAGE, pages=16, place="node=1")
    cache.put(["a"], [page("a")])
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    with pytest.raises((errors.Error, ConnectionError)):
        cache.get(["a"], [bytearray(PAGE)])
    with pytest.raises((errors.Error, ConnectionError)):
        cache.put(["b"], [page("b")])
    nodes.stop()
