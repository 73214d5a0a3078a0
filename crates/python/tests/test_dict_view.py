"""Long values of the dictionary: written without a copy on the way, and read in place as long as anybody looks at them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest

import hanare
from hanare import errors
from hanare._values import BESIDE, decode_value, encode_value

LONG = 1 << 18


@pytest.fixture(params=["local", "node=1"])
def shared(pool: hanare.Pool, name: str, request: Any) -> Any:
    made = hanare.Dict(name, pool=pool, place=request.param, memory=4 << 20)
    yield made
    made.remove()


def long_bytes(number: int) -> bytes:
    return bytes([number % 251]) * LONG


def test_arrays_come_back_as_they_were(shared: hanare.Dict) -> None:
    array = np.random.default_rng(1).random((300, 400))
    value = {"array": array, "fortran": np.asfortranarray(array), "every other": array[::2, ::2], "short": np.arange(5), "text": "t" * LONG}
    shared["value"] = value
    for got in (shared["value"], shared.view("value")):
        assert list(got) == list(value) and got["text"] == value["text"]
        assert all(np.array_equal(got[name], value[name]) for name in ("array", "fortran", "every other", "short"))
        assert got["fortran"].flags.f_contiguous and not got["fortran"].flags.c_contiguous
    copied = shared["value"]["array"]
    copied[0] = 7
    assert shared["value"]["array"][0, 0] == array[0, 0]
    viewed = shared.view("value")["array"]
    with pytest.raises(ValueError):
        viewed[0] = 7
    assert pickle.loads(pickle.dumps(viewed)).sum() == array.sum()


def test_views_of_bytes_and_of_short_values(shared: hanare.Dict) -> None:
    shared["long"], shared["short"], shared["number"] = long_bytes(3), b"short", 5
    for key, value in (("long", long_bytes(3)), ("short", b"short")):
        view = shared.view(key)
        assert isinstance(view, memoryview) and view.readonly and view == value
    assert shared.view("number") == 5
    with pytest.raises(KeyError):
        shared.view("none")


def test_a_view_is_no_copy_on_this_host(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=4 << 20)
    shared["array"] = np.arange(LONG / 8)
    first, second = shared.view("array"), shared.view("array")
    assert np.shares_memory(first, second) and not np.shares_memory(first, shared["array"])
    shared.remove()


def test_a_view_stays_as_it_is_whoever_replaces_the_value(shared: hanare.Dict, beside: hanare.Pool) -> None:
    other = hanare.Dict(shared.name, pool=beside)
    shared["key"] = long_bytes(1)
    view = shared.view("key")[100:]
    for number in range(2, 30):
        (shared if number % 2 else other)["key"] = long_bytes(number)
    assert set(view) == {1} and shared["key"] == long_bytes(29)
    del view
    shared["key"] = other["key"] = b""
    for each in (shared, other):
        each["other"] = long_bytes(0)
        each["other"] = b""
    del other, each
    assert shared.stat()["unlinked"] == 0, "memory of the values came back"


def test_a_view_outlives_a_sweep_and_the_dictionary(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=4 << 20)
    shared["key"] = np.full(LONG // 8, 1.5)
    view = shared.view("key")
    pool.region(name + ".v0.0").native.allocate(10_000)
    assert shared.sweep() > 0 and (view == 1.5).all() and (shared["key"] == 1.5).all()
    shared.remove()
    filled = [pool.full(4 << 20, 255, np.uint8) for _ in range(10)]
    assert (view == 1.5).all()
    [each.remove() for each in filled]


def test_views_go_on_while_others_replace(shared: hanare.Dict) -> None:
    shared["key"] = long_bytes(0)
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            shared["key"] = long_bytes(turn)

    writer = threading.Thread(target=write)
    writer.start()
    kept = [shared.view("key")]
    for turn in range(60):
        view = shared.view("key")
        assert len(set(view[::1000])) == 1
        kept = [*kept[-3:], view]
        assert all(len(set(each[::1000])) == 1 for each in kept)
    stop.set()
    writer.join()


def look_and_wait(name: str, begun: Any) -> None:
    view = hanare.Dict(name).view("key")
    begun.set()
    signal.pause()
    del view


def test_memory_that_a_killed_viewer_held_comes_back_by_a_sweep(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=4 << 20)
    shared["key"] = long_bytes(1)
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    viewer = context.Process(target=look_and_wait, args=(name, begun))
    viewer.start()
    assert begun.wait(30) and viewer.pid is not None
    os.kill(viewer.pid, signal.SIGKILL)
    viewer.join()
    shared["key"] = long_bytes(2)
    assert shared.stat()["unlinked"] == LONG
    shared.sweep()
    assert shared.stat()["unlinked"] == 0 and shared["key"] == long_bytes(2)
    for number in range(100):
        shared["key"] = long_bytes(number)
    assert shared.stat()["unlinked"] == 0
    shared.remove()


def test_a_child_that_ends_lets_its_parents_views_be(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=4 << 20)
    shared["key"] = long_bytes(1)
    view = shared.view("key")
    child = os.fork()
    if child == 0:
        del view
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for number in range(2, 10):
        shared["key"] = long_bytes(number)
    assert set(view[::1000]) == {1}
    shared.remove()


def test_bytes_that_no_program_writes_are_refused() -> None:
    kind, parts, length = encode_value([np.zeros(LONG), np.ones(LONG)])
    raw = b"".join(map(bytes, parts))
    assert kind == BESIDE and len(raw) == length
    assert decode_value(kind, raw)[1].sum() == LONG
    for wrong in (raw[:-64], raw + bytes(64), raw[:7], b"\xff" * 64, raw[:8] + b"\xff" * 8 + raw[16:]):
        with pytest.raises(errors.Garbage):
            decode_value(kind, wrong)
