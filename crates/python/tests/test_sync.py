"""Locks, groups, and waits for words: by threads, by tasks, given up, and interrupted."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import hanare
from hanare import errors


def test_a_lock_is_one_holders_at_a_time(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    counter = pool.zeros(1, "i8", name=name)
    distant = beside.open(name)

    def count(where: hanare.Pool, array: object) -> None:
        for _ in range(25):
            with where.lock(name):
                array[0] = array[0] + 1  # type: ignore[index]

    threads = [threading.Thread(target=count, args=pair) for pair in ((pool, counter), (beside, distant), (pool, counter))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert counter[0] == 75
    counter.remove()


def test_a_lock_that_others_have_is_not_taken_in_time(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    with pool.lock(name) as held:
        assert held.locked() and not held.was_abandoned
        other = beside.lock(name)
        assert not other.acquire(blocking=False) and not other.acquire(timeout=0.05)
        with pytest.raises(RuntimeError):
            other.release()
    assert other.acquire(timeout=5)
    other.release()
    with pool.lock(name, shared=True), beside.lock(name, shared=True):
        pass


def test_a_lock_may_be_released_by_another_thread(pool: hanare.Pool, name: str) -> None:
    lock = pool.lock(name)
    lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    with pool.lock(name):
        pass


def test_who_gives_up_a_wait_does_not_get_the_lock_later(pool: hanare.Pool, name: str) -> None:
    held = pool.lock(name)
    held.acquire()
    pending = pool._native.lock(name, False, None)
    with pytest.raises(TimeoutError):
        pending.result(0.05)
    del pending
    held.release()
    assert pool.lock(name).acquire(timeout=5), "what came for nobody was given back"


def test_tasks_wait_beside_each_other(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    async def holder(order: list[str], where: hanare.Pool, who: str) -> None:
        async with where.lock(name):
            order.append(who)
            await asyncio.sleep(0)
            order.append(who)

    async def all_of_it() -> list[str]:
        order: list[str] = []
        await asyncio.gather(*(holder(order, where, str(number)) for number, where in enumerate([pool, beside, pool, beside])))
        waiting = pool.lock(name + "x")
        async with beside.lock(name + "x"):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting.acquire_async(), 0.05)
        assert waiting.acquire(timeout=5)
        waiting.release()
        return order

    order = asyncio.run(all_of_it())
    assert order[::2] == order[1::2] and len(set(order)) == 4


def test_a_group_meets(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    met: list[int] = []

    def party(where: hanare.Pool, number: int) -> None:
        group = where.group(name, 3)
        for _ in range(3):
            met.append(number)
            group.barrier()

    threads = [threading.Thread(target=party, args=(where, number)) for number, where in enumerate((pool, beside, pool))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [sorted(met[at : at + 3]) for at in (0, 3, 6)] == [[0, 1, 2]] * 3
    first = pool.group(name + "b", 2)
    with pytest.raises(errors.BadGroup):
        pool.group(name + "b", 3)
    del first


def test_a_word_is_waited_for(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    region = pool.create(name, 4096)
    distant = beside.region(name)
    thread = threading.Timer(0.05, lambda: region.add(8, 3))
    thread.start()
    assert distant.wait_until(8, "at least", 3) == 3
    with pytest.raises(errors.NotInTime):
        distant.wait_until(8, "equal", 4, timeout=0.05)
    assert region.compare_and_swap(8, 3, 5) == 3 and asyncio.run(distant.wait_until_async(8, "differs", 3)) == 5
    region.remove()


WAITS = {
    "lock": "other.lock('busy').acquire()",
    "group": "pool.group('lonely', 2).barrier()",
    "word": "pool.create('word', 8).wait_until(0, 'equal', 1)",
    "unit": "pool.queue('empty', block=16).reader().receive()",
    "room": "[w.send(bytes(16)) for w in [pool.queue('full', block=16, depth=2).writer()] for _ in range(3)]",
    "map": "other.open('far').region.wait_until(0, 'equal', 1)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_every_wait(wait: str) -> None:
    program = f"""
import hanare, signal, sys
from hanare import _node
# A shell has those that it starts in the background pass over it.
signal.signal(signal.SIGINT, signal.default_int_handler)
nodes = _node.Nodes(2, "64MiB")
pool, other = (hanare.connect(socket) for socket in nodes.sockets)
held = pool.lock("busy"); held.acquire()
pool.create("far", 4096)
try:
    print("waits", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    held.release()
    print("interrupted", pool.lock("busy").acquire(timeout=5), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    # Time to begin its wait.
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == "interrupted True\n"
    assert process.wait(20) == 0
    process.stdout.close()


def deposit(name: str, lock: str, times: int) -> None:
    accounts = hanare.connect().open(name, mapped=False).map("entry")
    for _ in range(times):
        with hanare.connect().lock(lock):
            accounts[0] += 1


def test_data_come_and_go_with_their_lock(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    pool.zeros((4, 512), name=name, place="node=1")
    here, there = (each.open(name, mapped=False).map("entry") for each in (pool, beside))
    with pool.lock(name) as lock:
        assert not lock.is_torn
        lock.bind(here[0], here[2, :10])
        here[0, 0], here[2, 3] = 1, 7
        assert there[0, 0] == 0, "nobody sees a store before the lock is given back"
    with beside.lock(name):
        assert there[0, 0] == 1 and there[2, 3] == 7
        there[0, 0] = 2
    with pool.lock(name):
        assert here[0, 0] == 2
    context = multiprocessing.get_context("spawn")
    programs = [context.Process(target=deposit, args=(name, name, 20)) for _ in range(2)]
    [program.start() for program in programs]
    [program.join() for program in programs]
    with pool.lock(name) as lock:
        assert here[0, 0] == 42 and here[0, 511] == 40
        with pytest.raises(ValueError):
            lock.bind(here[:, 0])
        with pytest.raises(ValueError):
            lock.bind(np.zeros(3))
        lock.bind()
    with pytest.raises(RuntimeError):
        lock.bind(here[0])
    with pytest.raises(ValueError):
        pool.open(name, mapped=False).map("none")
    del here, there
    pool.remove(name)
