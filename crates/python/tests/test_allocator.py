"""NumPy's memory in the pool: arrays work as ever, their bytes are the node's, and go back to it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy._core.multiarray import get_handler_name

import hanare
from hanare import _node, errors

#: Of NumPy's own tests those of arrays. Those of shapes and iterators pass, too, and take 16 GiB.
NUMPYS = ["multiarray", "numeric", "ufunc", "indexing", "item_selection", "regression", "records"]


def used(pool: hanare.Pool) -> int:
    """Bytes that the first node lends now."""
    return int(pool.info()[0]["used"])


def settled(pool: hanare.Pool) -> int:
    """Bytes that the node lends, once what tests before gave back is no longer among them."""
    last, since = used(pool), time.monotonic()
    while time.monotonic() - since < 1.5:
        time.sleep(0.05)
        now = used(pool)
        if now != last:
            last, since = now, time.monotonic()
    return last


def lends(pool: hanare.Pool, least: int, most: int) -> bool:
    """Wait until the node has said that it lends so many bytes: it does with each renewal of its lease."""
    for _ in range(1200):
        if least <= used(pool) <= most:
            return True
        time.sleep(0.05)
    return False


def test_arrays_of_the_context_are_the_nodes_memory(pool: hanare.Pool) -> None:
    before = settled(pool)
    with hanare.allocator(pool) as memory:
        inside = np.arange(1_000_000.0)
        assert get_handler_name(inside) == "hanare" and type(inside) is np.ndarray
        doubled = inside * 2
        assert memory.nbytes >= 16_000_000 and lends(pool, before + 16_000_000, 1 << 40)
    outside = np.arange(1_000_000.0)
    assert get_handler_name(outside) == "default_allocator"
    # Blocks outlive the context.
    np.testing.assert_array_equal(doubled, outside * 2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(inside)), outside)
    assert not [row for row in pool.ls("hanare.numpy")]
    del inside, doubled
    gc.collect()
    assert memory.nbytes == 0
    del memory
    gc.collect()
    assert lends(pool, 0, before)


def test_the_allocator_of_the_context_before_comes_back(pool: hanare.Pool) -> None:
    with hanare.allocator(pool) as one, hanare.allocator(pool) as other:
        with one:
            a = np.ones(5000)
        b = np.ones(3000)
        assert one.nbytes == 40_000 // 64 * 64 and other.nbytes >= 24_000
        assert get_handler_name(a) == get_handler_name(b) == "hanare"
    assert get_handler_name(np.ones(5000)) == "default_allocator"


def test_zeros_are_zero_where_others_wrote(pool: hanare.Pool) -> None:
    with hanare.allocator(pool):
        for length in (10, 1000, 300_000):
            dirty = [np.full(length, 7.0) for _ in range(5)]
            del dirty
            assert not np.zeros(length).any()
            grown = np.full(length, 3.0)
            grown.resize(2 * length, refcheck=False)
            assert (grown[:length] == 3).all() and not grown[length:].any()
            grown.resize(length // 2, refcheck=False)
            assert (grown == 3).all()


STEPS = st.lists(st.tuples(st.sampled_from(["make", "zeros", "drop", "resize"]), st.integers(0, 200_000), st.integers(0, 20)), max_size=60)


@given(steps=STEPS)
def test_blocks_never_overlap(pool: hanare.Pool, steps: list[tuple[str, int, int]]) -> None:
    held: list[tuple[np.ndarray, int]] = []
    with hanare.allocator(pool, memory=4096) as memory:
        for number, (step, length, which) in enumerate(steps):
            mark = number % 250 + 1
            if step in ("make", "zeros"):
                made = np.empty(length, np.uint8) if step == "make" else np.zeros(length, np.uint8)
                assert step == "make" or not made.any()
                made[:] = mark
                held.append((made, mark))
            elif held:
                array, old = held.pop(which % len(held))
                if step == "resize":
                    kept = min(length, array.size)
                    array.resize(length, refcheck=False)
                    assert (array[:kept] == old).all() and not array[kept:].any()
                    array[:] = old
                    held.append((array, old))
            assert all((array == old).all() for array, old in held)
        assert memory.nbytes >= sum(array.size for array, _ in held)
    held.clear()
    array = made = None
    assert memory.nbytes == 0


def test_an_array_that_the_node_has_no_room_for_is_a_memory_error(pool: hanare.Pool) -> None:
    with hanare.allocator(pool) as memory:
        with pytest.raises(MemoryError):
            np.zeros(1 << 30, np.uint8)
        assert isinstance(memory.failure, (errors.PoolFull, errors.QuotaExceeded))
        assert np.ones(1000).sum() == 1000
    with pytest.raises(ValueError):
        hanare.allocator(pool, memory=0)


def test_threads_take_memory_at_a_time(pool: hanare.Pool) -> None:
    memory, wrong = hanare.allocator(pool), []

    def work(mark: int) -> None:
        with memory:
            dice = random.Random(mark)
            held = []
            for _ in range(300):
                held.append(np.full(dice.randrange(1, 20_000), mark, np.uint8))
                if len(held) > 10:
                    held.pop(dice.randrange(10))
                if not all((each == mark).all() for each in held[-3:]):
                    wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong and memory.nbytes == 0


def add_up(array: np.ndarray) -> float:
    own = np.ones(100_000)
    assert get_handler_name(own) == "hanare"
    del array
    return float(own.sum())


def test_children_by_fork_take_their_own(pool: hanare.Pool) -> None:
    with hanare.allocator(pool) as memory:
        array = np.full(100_000, 2.0)
        with multiprocessing.get_context("fork").Pool(2) as workers:
            assert workers.map(add_up, [array] * 6) == [100_000.0] * 6
        assert (array == 2).all() and memory.nbytes >= array.nbytes
        more = np.full(100_000, 3.0)
        assert (array == 2).all() and (more == 3).all()


def hold(begun: object) -> None:
    with hanare.allocator(memory=32 << 20):
        array = np.ones(32 << 20, np.uint8)
        begun.set()  # type: ignore[attr-defined]
        time.sleep(100)
        print(array[0])


def test_a_killed_program_leaves_nothing(pool: hanare.Pool) -> None:
    before = settled(pool)
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    program = context.Process(target=hold, args=(begun,))
    program.start()
    assert begun.wait(30) and lends(pool, before + (32 << 20), 1 << 40) and program.pid is not None
    os.kill(program.pid, signal.SIGKILL)
    program.join()
    assert lends(pool, 0, before) and not pool.ls("hanare.numpy")


def test_arrays_keep_their_bytes_when_the_node_is_lost() -> None:
    nodes = _node.Nodes(1, "64MiB")
    alone = hanare.connect(nodes.sockets[0])
    memory = hanare.allocator(alone, memory=1 << 20)
    with memory:
        array = np.arange(10_000)
    nodes.processes[0].kill()
    nodes.processes[0].wait()
    np.testing.assert_array_equal(array, np.arange(10_000))
    with memory, pytest.raises(MemoryError):
        np.zeros(8 << 20, np.uint8)
    assert isinstance(memory.failure, errors.Error)
    with memory:
        assert np.ones(1000).sum() == 1000
    nodes.stop()


@pytest.mark.timeout(600)
def test_numpys_own_tests_pass() -> None:
    """None fails under the allocator."""
    here = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": here}
    environment.pop("HANARE_NODE", None)
    words = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-m", "not slow", "-p", "no:cacheprovider", "-p", "under_allocator", "-p", "no:randomly"]
    words += ["-c", os.devnull, "--rootdir", here, "--pyargs", *(f"numpy._core.tests.test_{name}" for name in NUMPYS)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=580, cwd=here)
    told = done.stdout.splitlines()
    assert any(line.startswith("hanare: ") and "blocks" in line for line in told), done.stdout[-3000:] + done.stderr[-2000:]
    assert done.returncode == 0, done.stdout[-6000:]
    passed = int(next(line for line in reversed(told) if " passed" in line).split(" passed")[0].split()[-1])
    assert passed > 15_000
