"""Queues: blocks and records by threads, processes and tasks, on this host and from another; what is refused; what a death tells."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import select
import signal
import threading
from typing import Any

import numpy as np
import pytest

import hanare
from hanare import errors


def test_what_is_sent_is_received_in_order_on_both_hosts(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, record=4096, depth=4, ports=2)
    assert (queue.block, queue.record, queue.depth, queue.ports, queue.overflow) == (None, 4096, 4, 2, "wait")
    units = [bytes([k % 251]) * (k * 37 % 4097) for k in range(500)]

    def write(where: hanare.Pool) -> None:
        with where.queue(name).writer() as writer:
            for unit in units[:100]:
                writer.send(unit)
            writer.send_all(units[100:])

    for writing, reading in ((pool, beside), (beside, pool)):
        thread = threading.Thread(target=write, args=(writing,))
        with reading.queue(name).reader() as reader:
            thread.start()
            assert [reader.receive(timeout=30) for _ in units] == units
            with pytest.raises(TimeoutError):
                reader.receive(timeout=0.01)
        thread.join()
    assert queue.stat()["has_reader"] is False and all(lane["bytes"] == 0 for lane in queue.stat()["lanes"])
    queue.remove()


def test_any_buffer_is_a_unit_and_others_are_refused(pool: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, block=64, depth=8, overflow="refuse")
    with queue.writer() as writer, queue.reader() as reader:
        array = np.arange(8.0)
        writer.send(array)
        assert np.array_equal(np.frombuffer(reader.receive(1)), array)
        with pytest.raises(errors.BadBlock):
            writer.send(b"short")
        with pytest.raises(BufferError):
            writer.send(np.zeros((8, 16))[:, ::2])
        with pytest.raises(TypeError):
            writer.send("text")
        assert [writer.try_send(bytes(64)) for _ in range(9)] == 8 * [True] + [False]
        with pytest.raises(errors.QueueFull):
            writer.send(bytes(64))
        assert reader.receive_ready(3) == 3 * [bytes(64)] and len(reader.receive_ready()) == 5 and reader.receive_ready() == []
    with pytest.raises(ValueError):
        writer.send(bytes(64))
    with pytest.raises(ValueError):
        reader.receive()
    writer.close()
    queue.remove()


def test_what_cannot_be_a_queue_is_refused(pool: hanare.Pool, name: str) -> None:
    with pytest.raises(errors.UnknownRegion):
        pool.queue(name)
    for wrong in ({"block": 3}, {"record": 64, "block": 64}, {"record": 64, "overflow": "drop"}, {"record": 64, "depth": 0}):
        with pytest.raises((errors.BadSetting, ValueError)):
            pool.queue(name, **wrong)  # type: ignore[arg-type]
    array = pool.zeros(100, name=name)
    with pytest.raises(errors.NoQueue):
        pool.queue(name)
    array.remove()
    queue = pool.queue(name, record=64, ports=1)
    with pytest.raises(errors.NameTaken):
        pool.queue(name, record=64)
    assert pool.queue(name, block=16, exist_ok=True).record == 64
    with queue.reader(), queue.writer():
        with pytest.raises(errors.SecondReader):
            queue.reader()
        with pytest.raises(errors.LimitReached):
            queue.writer()
    queue.remove()


def test_a_queue_with_copies_is_one_for_both_hosts(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    with pytest.raises(errors.BadUse):
        pool.queue(name, record=64, overflow="spill", copies=2)
    with pytest.raises(errors.BadPlacement):
        pool.queue(name, record=64, copies=4)
    queue = pool.queue(name, record=64, copies=2)
    assert '"copies":2' in pool._native.stat(name).replace(" ", "")
    with beside.queue(name).writer() as writer, queue.reader() as reader:
        writer.send_all([b"one", b"two"])
        assert [reader.receive(timeout=30) for _ in range(2)] == [b"one", b"two"]
    queue.remove()


def test_tasks_wait_for_units_and_for_room(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, block=16, depth=2, ports=2)

    async def produce(where: hanare.Pool, first: int) -> None:
        with where.queue(name).writer() as writer:
            for number in range(first, first + 50):
                await writer.send_async(number.to_bytes(16, "little"))

    async def consume() -> list[int]:
        numbers = []
        with queue.reader() as reader:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.receive_async(), 0.05)
            writing = [asyncio.create_task(produce(where, first)) for where, first in ((pool, 0), (beside, 1000))]
            async for unit in reader:
                numbers.append(int.from_bytes(unit, "little"))
                if len(numbers) == 100:
                    break
            await asyncio.gather(*writing)
        return numbers

    numbers = asyncio.run(asyncio.wait_for(consume(), 60))
    assert [n for n in numbers if n < 1000] == list(range(50)) and [n for n in numbers if n >= 1000] == list(range(1000, 1050))
    queue.remove()


def test_a_descriptor_wakes_a_select(pool: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, block=16)
    with queue.reader() as reader, queue.writer() as writer:
        reader.arm()
        assert select.select([reader], [], [], 0) == ([], [], [])
        sending = threading.Timer(0.05, writer.send, [bytes(16)])
        sending.start()
        assert select.select([reader], [], [], 20)[0] == [reader]
        sending.join()
        assert reader.receive_ready() == [bytes(16)]
    queue.remove()


def test_a_port_is_one_threads_at_a_time(pool: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, block=16)
    with queue.reader() as reader, queue.writer() as writer:
        waiting = threading.Thread(target=reader.receive, args=(30,))
        waiting.start()
        while not _is_busy(reader):
            pass
        writer.send(bytes(16))
        waiting.join()
        assert reader.receive_ready() == []
    queue.remove()


def _is_busy(reader: Any) -> bool:
    try:
        reader.receive_ready()
    except RuntimeError as busy:
        return "another thread" in str(busy)
    return False


def _work(queue: hanare.Queue, number: int) -> None:
    with queue.writer() as writer:
        for step in range(10):
            writer.send(number.to_bytes(8, "little") + step.to_bytes(8, "little"))
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def test_workers_are_given_a_queue_and_a_dead_one_is_told_of(pool: hanare.Pool, name: str) -> None:
    queue = pool.queue(name, block=16, ports=8)
    assert pickle.loads(pickle.dumps(queue)).name == queue.name
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        workers = [context.Process(target=_work, args=(queue, number)) for number in range(3)]
        [worker.start() for worker in workers]
        units, gone = [], 0
        with queue.reader() as reader:
            while len(units) < 30 or gone < 1:
                try:
                    units.append(reader.receive(timeout=60))
                except errors.WriterGone:
                    gone += 1
        [worker.join() for worker in workers]
        assert gone == 1
        for number in range(3):
            own = [unit for unit in units if unit[:8] == number.to_bytes(8, "little")]
            assert own == [number.to_bytes(8, "little") + step.to_bytes(8, "little") for step in range(10)], method
    queue.remove()
