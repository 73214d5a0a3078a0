"""The dictionary does what `dict` does, for one program and for many at a time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import zict
from hypothesis import given, strategies as st

import hanare
from hanare import _hanare, errors

KEYS = st.recursive(
    st.one_of(st.text(max_size=5), st.binary(max_size=5), st.integers(-3, 3), st.booleans(), st.floats(allow_nan=False), st.none()),
    lambda keys: st.tuples(keys, keys),
    max_leaves=3,
)
VALUES = st.one_of(st.binary(max_size=3000), st.integers(), st.lists(st.text(max_size=3)), st.none())
STEPS = st.lists(st.tuples(st.sampled_from(["set", "get", "delete", "pop", "in", "setdefault"]), KEYS, VALUES), max_size=40)


@pytest.fixture(params=["local", "node=1"])
def shared(pool: hanare.Pool, name: str, request: Any) -> Any:
    made = hanare.Dict(name, pool=pool, place=request.param, buckets=8, memory=1 << 20)
    yield made
    made.remove()


@given(steps=STEPS)
def test_steps_do_what_they_do_to_a_dict(shared: hanare.Dict, steps: Any) -> None:
    shared.clear()
    model: dict[Any, Any] = {}
    for step, key, value in steps:
        if step == "set":
            model[key] = shared[key] = value
        elif step == "get":
            assert shared.get(key, "none") == model.get(key, "none")
        elif step == "delete":
            assert (key in shared) == (key in model)
            if key in model:
                del model[key], shared[key]
            else:
                with pytest.raises(KeyError):
                    del shared[key]
        elif step == "pop":
            assert shared.pop(key, "none") == model.pop(key, "none")
        elif step == "in":
            assert (key in shared) == (key in model)
        else:
            assert shared.setdefault(key, value) == model.setdefault(key, value)
    assert dict(shared.items()) == model and len(shared) == len(model)


def test_another_host_has_the_same_dictionary(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    here = hanare.Dict(name, pool=pool, memory=1 << 20)
    there = hanare.Dict(name, pool=beside)
    array = np.arange(100_000.0)
    here["array"], there["other"] = array, b"x" * 5000
    np.testing.assert_array_equal(there["array"], array)
    assert here["other"] == b"x" * 5000 and set(here) == set(there) == {"array", "other"}
    assert pickle.loads(pickle.dumps(here))["other"] == b"x" * 5000
    here.remove()
    with pytest.raises(hanare.Error):
        there["other"]
    pool.create(name, 100)
    with pytest.raises(errors.BadAttributes):
        hanare.Dict(name, pool=pool)
    pool.remove(name)


def test_it_grows_heap_by_heap_and_space_comes_back(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=64 << 10)
    for number in range(40):
        shared[number] = bytes([number]) * 10_000
    assert all(shared[number] == bytes([number]) * 10_000 for number in range(40))
    capacity = shared.stat()["capacity"]
    assert capacity > 400_000
    for turn in range(40):
        shared[turn % 3] = b"y" * 10_000
    assert shared.stat()["capacity"] == capacity and shared.stat()["unlinked"] == 0
    shared["large"] = b"z" * (1 << 20)
    assert shared["large"] == b"z" * (1 << 20)
    shared.remove()
    assert not [row for row in pool.ls(name) if row["name"].startswith(name + ".")]


def count(name: str, place: int, turns: int) -> None:
    shared = hanare.Dict(name)
    for turn in range(turns):
        shared[place, turn] = turn
        shared["both"] = bytes([place]) * random.choice([10, 3000])
        text = shared["both"]
        assert len(set(text)) == 1 and len(text) in (10, 3000), "a value is one writer's, whole"
        if turn % 3 == 0:
            del shared[place, turn]


@pytest.mark.parametrize("buckets", [1, 64])
def test_many_programs_write_at_a_time(pool: hanare.Pool, name: str, buckets: int) -> None:
    shared = hanare.Dict(name, pool=pool, buckets=buckets, memory=1 << 20)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=count, args=(name, place, 30)) for place in range(3)]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    wanted = {(place, turn) for place in range(3) for turn in range(30) if turn % 3} | {"both"}
    assert set(shared) == wanted and len(shared) == len(wanted)
    shared.remove()


def write_for_ever(name: str) -> None:
    shared = hanare.Dict(name)
    for turn in range(1 << 40):
        shared["key"] = bytes([turn % 251]) * 4000
        shared[turn % 7] = turn


def test_a_killed_writer_leaves_old_values_or_new_ones(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, buckets=2, memory=4 << 20)
    shared["key"] = b""
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        writer = context.Process(target=write_for_ever, args=(name,))
        writer.start()
        time.sleep(0.1 + random.random() / 20)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert len(set(shared["key"])) <= 1 and set(shared) <= {"key", *range(7)}
        shared["after"] = 1
        del shared["after"]
    whole = dict(shared)
    shared.sweep()
    stat = shared.stat()
    assert stat["unlinked"] == 0 and stat["linked"] < 16 << 10 and dict(shared) == whole
    shared.remove()
    assert not pool.ls(name)


def test_the_table_grows_with_the_keys(shared: hanare.Dict, beside: hanare.Pool) -> None:
    other = hanare.Dict(shared.name, pool=beside)
    values = {number: bytes([number % 251]) * (10 if number % 50 else 3000) for number in range(600)}
    for number, value in values.items():
        (shared if number % 2 else other)[number] = value
    assert shared.stat()["buckets"] >= 128 and dict(other) == dict(shared) == values
    assert all(other[number] == value for number, value in values.items())
    names = {row["name"] for row in beside.ls(shared.name)}
    assert len([each for each in names if ".t" in each]) <= 3, "the tables of before are gone"
    for number in values:
        del other[number]
    # Blocks that it keeps come back with it.
    del other
    assert len(shared) == 0 and shared.stat()["unlinked"] == 0


def grow(name: str, place: int) -> None:
    shared = hanare.Dict(name)
    for number in range(150):
        shared[place, number] = number
        assert shared[place, number] == number


def test_it_grows_while_others_write_and_read(shared: hanare.Dict) -> None:
    shared["still"] = b"s" * 5000
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=grow, args=(shared.name, place)) for place in range(3)]
    [writer.start() for writer in writers]
    while any(writer.is_alive() for writer in writers):
        assert shared["still"] == b"s" * 5000
        keys = list(shared)
        assert len(keys) == len(set(keys)) and "still" in keys, "each key once, while the table is made anew"
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert set(shared) == {"still", *((place, number) for place in range(3) for number in range(150))}
    assert shared.stat()["buckets"] > 8


def freeze_and_wait(name: str, begun: Any, sweeps: bool) -> None:
    shared = hanare.Dict(name)

    def stop(*_: Any) -> None:
        begun.set()
        time.sleep(100)

    shared._copy = stop  # type: ignore[method-assign]
    shared._renew(shared._now, growth=4, sweeps=sweeps)


def test_words_are_as_before_where_a_copy_fails(shared: hanare.Dict, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {number: bytes([number]) * 2000 for number in range(20)}
    shared.update(values)
    monkeypatch.setattr(shared, "_copy", refuse)
    with pytest.raises(errors.PoolFull):
        shared._renew(shared._now, growth=4)
    shared["after"] = b"a"
    assert dict(shared) == {**values, "after": b"a"}


@pytest.mark.parametrize("sweeps", [False, True])
def test_a_program_killed_while_it_makes_the_table_anew(shared: hanare.Dict, pool: hanare.Pool, sweeps: bool) -> None:
    values = {number: bytes([number]) * 2000 for number in range(20)}
    shared.update(values)
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    program = context.Process(target=freeze_and_wait, args=(shared.name, begun, sweeps))
    program.start()
    assert begun.wait(30) and program.pid is not None
    # Words are frozen: readers go on, and writers wait for it.
    assert dict(shared) == values
    waited = threading.Thread(target=shared.__setitem__, args=("after", 1))
    waited.start()
    os.kill(program.pid, signal.SIGKILL)
    program.join()
    waited.join(30)
    assert dict(shared) == {**values, "after": 1}
    assert len({row["name"].split(".t")[1].split(".")[0] for row in pool.ls(shared.name) if ".t" in row["name"]}) == 1


def take_and_wait(name: str, begun: Any) -> None:
    shared = hanare.Dict(name)
    for _ in range(50):
        shared._now.values.write([b"x" * 10_000], True)
        shared._now.native.write(0, 1, [(b"bkey", 0, b"value", 5, 0, 0)], True)
    begun.set()
    time.sleep(100)


def test_what_a_killed_writer_took_comes_back(shared: hanare.Dict) -> None:
    shared.update({number: bytes([number]) * 2000 for number in range(20)})
    assert shared.stat()["unlinked"] == 0 == shared.sweep()
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    program = context.Process(target=take_and_wait, args=(shared.name, begun))
    program.start()
    assert begun.wait(30) and program.pid is not None
    os.kill(program.pid, signal.SIGKILL)
    program.join()
    before = shared.stat()
    assert before["unlinked"] >= 500_000
    assert shared.sweep() == before["unlinked"]
    after = shared.stat()
    assert after["unlinked"] == 0 and after["linked"] == before["linked"]
    assert dict(shared) == {number: bytes([number]) * 2000 for number in range(20)}


def test_assignments_sweep_before_they_take_more(shared: hanare.Dict) -> None:
    shared["key"] = b"k" * 2000
    for _ in range(90):
        shared._now.values.write([b"x" * 10_000], True)
    capacity = shared.stat()["capacity"]
    for number in range(20):
        shared[number] = bytes([number]) * 10_000
    stat = shared.stat()
    assert stat["unlinked"] == 0 and stat["capacity"] <= capacity + (1 << 20)
    assert shared["key"] == b"k" * 2000 and all(shared[number] == bytes([number]) * 10_000 for number in range(20))


def test_a_table_that_cannot_grow_serves_on(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, buckets=1, memory=1 << 20)
    shared._make_table = refuse  # type: ignore[method-assign]
    for number in range(40):
        shared[number] = number
    assert dict(shared) == {number: number for number in range(40)} and shared.stat()["buckets"] == 1
    shared._now.values.write([b"x" * 10_000], True)
    with pytest.raises(errors.PoolFull):
        shared.sweep()
    shared["after"] = 1
    assert len(shared) == 41
    del shared._make_table
    assert shared.sweep() > 0 and shared.stat()["unlinked"] == 0
    shared.remove()


def refuse(*_: Any) -> Any:
    raise errors.PoolFull("no memory")


def test_readers_see_whole_values_while_they_change(shared: hanare.Dict) -> None:
    shared["key"] = b"a" * 2000
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            shared["key"] = bytes([97 + turn % 26]) * (2000 + turn % 50)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(300):
        assert len(set(shared["key"])) == 1
    stop.set()
    writer.join()


def test_zict_spills_into_it(shared: hanare.Dict) -> None:
    buffer = zict.Buffer({}, shared, n=3)
    for number in range(10):
        buffer[f"key-{number}"] = number
    assert len(shared) == 7 and [buffer[f"key-{number}"] for number in range(10)] == list(range(10))


def test_keys_that_other_programs_could_not_find_are_refused(shared: hanare.Dict) -> None:
    for key in ([1], {"a": 1}, object(), frozenset([1])):
        with pytest.raises(TypeError):
            shared[key] = 1
    shared[1] = "a"
    assert shared[1.0] == shared[True] == "a" and 1.5 not in shared


def test_keys_are_as_they_were(shared: hanare.Dict) -> None:
    keys = ["", "\ud800", "\u00e9", b"", bytearray(b"a"), 0, -1, 1 << 70, -(1 << 63), 0.5, float("inf"), -1e300, None, (), ((), ("a", (1,))), True]
    for number, key in enumerate(keys):
        shared[key] = number
    kept = {bytes(key) if isinstance(key, bytearray) else key: number for number, key in enumerate(keys)}
    assert dict(shared) == kept and all(shared[key] == number for key, number in kept.items())
    deep: Any = ()
    for _ in range(5000):
        deep = (deep,)
    with pytest.raises(RecursionError):
        shared[deep] = 1


def u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


#: Where in a bucket of one entry what is written: bytes, entries, lengths of key and value, where the value is, the key.
WRONG = [
    (4, u32(0)), (4, u32(25)), (4, u32(0xFFFF_FFFF)), (8, u32(2)), (8, u32(0xFFFF_FFFF)), (24, u32(0xFFFF_FFFF)), (24, u32(200)), (28, u32(0xFFFF_FFFF)),
    (32, b"\1" + b"\xff" * 7), (32, b"\xff" * 4 + b"\0" * 4), (32, b"\xff" * 4 + u32(70)), (48, b"q"),
]  # fmt: skip


@pytest.mark.parametrize("place, wrong", WRONG)
def test_buckets_that_no_program_writes_are_errors(pool: hanare.Pool, name: str, monkeypatch: pytest.MonkeyPatch, place: int, wrong: bytes) -> None:
    monkeypatch.setattr("hanare.dictionary._TURN_COUNT_MAX", 10)
    shared = hanare.Dict(name, pool=pool, buckets=1, memory=1 << 20)
    shared["key"] = b"v" * 100
    heap, words = pool.region(name + ".t0.0"), pool.region(name + ".t0")
    word = int.from_bytes(words.get(), "little")
    at, length = 64 * (word & _hanare.PLACE), 24 + 24 + 4 + 100
    bucket = bytearray(heap.get(at, length))
    assert _hanare.checksum([bucket[4:]]).to_bytes(4, "little") == bucket[:4]
    bucket[place : place + len(wrong)] = wrong
    bucket[:4] = _hanare.checksum([bucket[4:]]).to_bytes(4, "little")
    heap.put(at, bucket)
    for work in (lambda: shared["key"], lambda: list(shared), lambda: shared.view("key"), lambda: shared.update(key=1)):
        try:
            work()
        except (hanare.Error, KeyError):
            continue
    shared.stat()
    shared.remove()


@pytest.mark.parametrize("word", [1, (1 << 30) - 1, 1 << 42 | 5, 63 << 42 | 1 << 30 | 5, 0xFFF << 30 | 1, 0xFFF << 30 | (1 << 30) - 1])
def test_words_that_no_program_writes_are_errors(shared: hanare.Dict, pool: hanare.Pool, monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    monkeypatch.setattr("hanare.dictionary._TURN_COUNT_MAX", 10)
    shared["key"] = b"v"
    pool.region(shared.name + ".t0").put(0, word.to_bytes(8, "little") * 8)
    for work in (lambda: shared["key"], lambda: shared.update(key=1), lambda: shared.pop("key"), lambda: list(shared), lambda: shared.view("key")):
        with pytest.raises(hanare.Error):
            work()
    pool.region(shared.name + ".t0").put(0, bytes(64))
