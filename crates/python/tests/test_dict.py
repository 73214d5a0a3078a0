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
from hanare import errors

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


def test_a_dictionary_with_copies_is_one_for_both_hosts(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    here = hanare.Dict(name, pool=pool, copies=2, buckets=4)
    there = hanare.Dict(name, pool=beside)
    for number in range(100):
        here[number], there[str(number)] = [number] * 500, np.arange(number)
    for number in range(100):
        assert there[number] == [number] * 500
        np.testing.assert_array_equal(here[str(number)], np.arange(number))
        del there[number]
    assert len(here) == 100 and 7 not in here
    here.remove()
