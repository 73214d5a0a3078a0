"""What calls of the dictionary cost in messages, and that blocks and places kept for that are never another's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given, strategies as st

import hanare
from hanare import _hanare, _node

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


#: Longer than a bucket that was read is good for a write that does not read it again.
LATER = 0.05


def test_a_value_of_another_host_costs_one_message_and_an_assignment_two(pool: hanare.Pool, name: str) -> None:
    shared = hanare.Dict(name, pool=pool, place="node=1")
    for _ in range(3):
        shared["key"] = b"v" * 1000
    assert messages(pool, lambda: shared["key"]) == 1
    assert messages(pool, lambda: "key" in shared) == 1
    time.sleep(LATER)
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


def test_an_assignment_right_behind_another_or_a_look_costs_one_message(pool: hanare.Pool, name: str, beside: hanare.Pool) -> None:
    shared, other = hanare.Dict(name, pool=pool, place="node=1"), hanare.Dict(name, pool=beside)
    shared["key"] = 0

    def add() -> None:
        shared["key"] += 1

    # A machine that is busy may take longer between two calls than a bucket is remembered.
    assert min(messages(pool, lambda: shared.__setitem__("key", 0)) for _ in range(20)) == 1
    assert min(messages(pool, add) for _ in range(20)) == 2
    assert shared["key"] == 20
    # What others change meanwhile is found out.
    shared["key"], other["key"], other["beside"] = 1, 2, 3
    shared["third"] = 4
    assert dict(shared) == dict(other) == {"key": 2, "beside": 3, "third": 4}
    shared["third"], other["third"] = 5, 6
    del shared["third"]
    assert "third" not in other
    other["third"] = 7
    assert shared.pop("third") == 7
    shared.remove()


def test_programs_that_take_turns_lose_nothing(pool: hanare.Pool, name: str, beside: hanare.Pool) -> None:
    both = [hanare.Dict(name, pool=pool, place="node=1", buckets=1), hanare.Dict(name, pool=beside)]
    for turn in range(200):
        both[turn % 2][turn % 5] = turn
    assert dict(both[0]) == dict(both[1]) == {turn % 5: turn for turn in range(195, 200)}
    both[0].remove()


def start(folder: Path, number: int, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start a node that has a folder of its own; return it, and its address."""
    words = [_node.program(), "node", "--json", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", f"node{number}"]
    words += ["--socket", str(folder / f"{number}.sock"), "--key", str(folder / "pool.key"), *more]
    state = {**os.environ, "HANARE_STATE": str(folder / f"state{number}")}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=state)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


def stop(node: subprocess.Popen[str]) -> None:
    node.terminate()
    node.wait(30)
    assert node.stdout is not None
    node.stdout.close()


def test_a_node_that_began_anew_serves_on(tmp_path: Path) -> None:
    (tmp_path / "pool.key").write_text(_hanare.draw_key())
    (tmp_path / "pool.key").chmod(0o600)
    first, address = start(tmp_path, 0)
    join = ["--join", address, "--persist", str(tmp_path / "kept")]
    second, _ = start(tmp_path, 1, *join)
    try:
        shared = hanare.Dict("kept", pool=hanare.connect(str(tmp_path / "0.sock")), place="node=1")
        shared["key"] = shared["key"] = b"v"
        for turn in range(3):
            stop(second)
            second, _ = start(tmp_path, 1, *join)
            if turn:
                shared["key"] = bytes([turn])
            assert shared["key"] == (bytes([turn]) if turn else b"v")
    finally:
        stop(second)
        stop(first)


def test_a_child_made_by_fork_has_none_of_the_blocks_kept(shared: hanare.Dict, pool: hanare.Pool) -> None:
    values = {number: bytes([number]) * 200 for number in range(8)}
    for _ in range(2):
        shared.update(values)
    assert messages(pool, lambda: shared.update(values)) <= 2 * len(values), "there are blocks to be had twice"
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
