"""What calls of the dictionary cost in messages, and that blocks and places kept for that are never another's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, Callable

import pytest
from hypothesis import given, strategies as st

import hanare
from hanare import errors

VALUES = st.one_of(st.binary(max_size=30), st.binary(min_size=1100, max_size=1300), st.integers())
STEPS = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["set", "get", "pop"]), st.integers(0, 5), VALUES), max_size=60)


@pytest.fixture(params=["local", "node=1"])
def shared(pool: hanare.Pool, name: str, request: Any) -> Any:
    made = hanare.Dict(name, pool=pool, place=request.param, buckets=8, memory=1 << 20)
    yield made
    made.remove()


def messages(pool: hanare.Pool, work: Callable[[], object]) -> int:
    before = pool.traffic()["messages_sent"]
    work()
    return pool.traffic()["messages_sent"] - before


def test_a_value_of_another_host_costs_one_message_and_an_assignment_two(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, place="node=1")
    for _ in range(3):
        shared["key"] = b"v" * 1000
    assert messages(pool, lambda: shared["key"]) == 1
    assert messages(pool, lambda: "key" in shared) == 1
    assert messages(pool, lambda: shared.__setitem__("key", b"w" * 1000)) == 2
    other = hanare.Dict(name, pool=pool)
    assert messages(pool, lambda: other["key"]) == 2, "who has not seen the word reads it first"
    other["key"] = b"x" * 1000
    assert messages(pool, lambda: shared["key"]) == 2, "and so does who saw another"
    assert shared["key"] == b"x" * 1000
    shared.remove()


def test_an_assignment_on_this_host_costs_no_message(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool)
    for _ in range(3):
        shared["key"], shared["long"] = b"v" * 1000, b"l" * 3000
    assert messages(pool, lambda: shared.update({"key": b"w" * 1000, "long": b"m" * 3000})) == 0
    assert shared["key"] == b"w" * 1000 and shared["long"] == b"m" * 3000
    shared.remove()


@given(steps=STEPS)
def test_two_programs_that_remember_places_read_what_is_there(shared: hanare.Dict, beside: hanare.Pool, steps: Any) -> None:
    shared.clear()
    both, model = [shared, hanare.Dict(shared.name, pool=beside)], dict[Any, Any]()
    for who, step, key, value in steps:
        if step == "set":
            model[key] = both[who][key] = value
        elif step == "get":
            assert both[who].get(key, "none") == model.get(key, "none")
        else:
            assert both[who].pop(key, "none") == model.pop(key, "none")
    assert dict(both[0]) == dict(both[1]) == model
    del both[1]
    assert shared.stat()["unlinked"] == 0, "what the other kept has come back with its last reference"


def test_a_batch_that_is_refused_is_read_singly(shared: hanare.Dict) -> None:
    shared["key"] = b"v"

    def refuse(_: Any) -> None:
        raise errors.GrantRefused("the node began anew")

    table = shared._now
    before, table.region.pool = table.region.pool, SimpleNamespace(_native=SimpleNamespace(get_each=refuse))  # type: ignore[assignment]
    try:
        assert shared["key"] == b"v"
    finally:
        table.region.pool = before


def test_an_assignment_that_is_refused_is_done_singly(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, place="node=1")
    shared["key"] = shared["key"] = b"v"
    table, was_asked = shared._now, []

    def refuse(*_: Any) -> None:
        was_asked.append(True)
        raise errors.GrantRefused("the node began anew")

    before = table.region.pool
    native = SimpleNamespace(get_each=before._native.get_each, put_and_swap=refuse)
    table.region.pool = SimpleNamespace(_native=native)  # type: ignore[assignment]
    try:
        shared["key"] = b"w"
    finally:
        table.region.pool = before
    assert was_asked and shared["key"] == b"w"
    shared.remove()


def test_a_child_made_by_fork_has_none_of_the_blocks_kept(shared: hanare.Dict) -> None:
    values = {number: bytes([number]) * 200 for number in range(8)}
    for _ in range(2):
        shared.update(values)
    assert shared._now.buckets._kept._here(), "there is one to be had twice"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            shared.update({number: bytes([100 + number]) * 200 for number in range(4)})
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    shared.update({number: bytes([200 + number]) * 200 for number in range(4, 8)})
    assert dict(shared) == {number: bytes([100 + number + 100 * (number // 4)]) * 200 for number in range(8)}


WRITES = """
import hanare, os, signal, sys
shared = hanare.Dict(sys.argv[1])
for turn in range(20):
    shared["key"], shared["long"] = b"v" * (turn * 40), b"l" * (2000 + turn * 40)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_blocks_kept_come_back_with_their_program(shared: hanare.Dict, end: str) -> None:
    done = subprocess.run([sys.executable, "-c", WRITES, shared.name, end])
    assert done.returncode == (0 if end == "ended" else -signal.SIGKILL)
    unlinked = shared.stat()["unlinked"]
    assert unlinked == 0 if end == "ended" else 0 < unlinked <= 2 * 266_240
    shared.sweep()
    assert shared.stat()["unlinked"] == 0 and len(shared["long"]) == 2760


def test_a_full_heap_has_blocks_kept_by_this_program_given_back_first(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, memory=16 << 10)
    shared["long"] = b"l" * 4000
    shared["long"] = b"l" * 4096
    shared["longest"] = b"m" * 4096
    shared["longest"] = b"m" * 2000
    before = shared.stat()["capacity"]
    for _ in range(3):
        shared["long"] = b"n" * 3000
        shared["long"] = b"n" * 5000
    assert shared.stat()["capacity"] == before and shared["long"] == b"n" * 5000
    shared.remove()


def test_a_value_that_was_never_read_here_is_replaced(shared: hanare.Dict, beside: hanare.Pool) -> None:
    shared.update(dict.fromkeys(range(5), b"l" * 2000))
    other = hanare.Dict(shared.name, pool=beside)
    other.update(dict.fromkeys(range(5), b"short"))
    del other
    assert shared.stat()["unlinked"] == 0 and set(shared.values()) == {b"short"}
