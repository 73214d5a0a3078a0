"""A peer of the bench: ``python -m hanare._peers PEER COUNT LENGTH``."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any, Callable

import numpy as np

from hanare._peers import (
    DICT_GETS, DICT_PUTS, GETS, GETS_INTO, HANDED_LEN, HANDED_OVER, LENGTHS, PAGES_GET, PAGES_PUT, PLACE_COUNT, PUTS, STORE_GETS, STORE_LENGTHS,
    STORE_PUTS, STORED, Told, sums
)


def _seconds(work: Callable[[], object], count: int) -> float:
    """The median of seven rounds, as the bench has it."""
    work()
    rounds = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(count):
            work()
        rounds.append((time.perf_counter() - begun) / count)
    return sorted(rounds)[3]


def _run_mpi(count: int, _: int) -> Told:
    import mpi4py

    # One-sided messages over TCP are for programs of one thread.
    mpi4py.rc.threads = False
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    window = MPI.Win.Allocate(1 << 20, comm=world)
    told: Told = {}
    if world.rank == 0:
        window.Lock_all()
        for length in LENGTHS.values():
            memory = np.zeros(length, np.uint8)

            def get(memory: Any = memory) -> None:
                window.Get(memory, 1)
                window.Flush(1)

            def put(memory: Any = memory) -> None:
                window.Put(memory, 1)
                window.Flush(1)

            turns = count if length < 1 << 20 else max(count // 20, 1)
            told[GETS_INTO[length]], told[PUTS[length]] = _seconds(get, turns), _seconds(put, turns)
        window.Unlock_all()
    # The other rank's library has to look after the window meanwhile: a barrier that polls does.
    waits = world.Ibarrier()
    while not waits.Test():
        pass
    window.Free()
    return told


def _run_dragon(count: int, _: int) -> Told:
    import multiprocessing

    import dragon  # noqa: F401
    from dragon.data.ddict import DDict

    multiprocessing.set_start_method("dragon")
    shared = DDict(1, 1, 256 << 20)
    told: Told = {}
    for length in LENGTHS.values():
        data = os.urandom(length)
        shared["key"] = data
        turns = max(count // 100, 1)
        told[GETS[length]] = _seconds(lambda: shared["key"], turns)
        told[PUTS[length]] = _seconds(lambda data=data: shared.__setitem__("key", data), turns)  # type: ignore[misc]
    data = shared["key"] = os.urandom(1024)
    get, put = _seconds(lambda: shared["key"], turns := max(count // 20, 1)), _seconds(lambda: shared.__setitem__("key", data), turns)
    told |= {case: get for case in DICT_GETS.values()} | {case: put for case in DICT_PUTS.values()}
    shared.destroy()
    return told


def _run_ray(count: int, _: int) -> Told:
    import ray

    ray.init(num_cpus=1, object_store_memory=6 * HANDED_LEN, include_dashboard=False, log_to_driver=False, logging_level="error")

    @ray.remote
    class Other:
        def seventh(self, array: Any) -> float:
            return float(array[7])

    remote: Any = Other
    other, array = remote.remote(), np.zeros(HANDED_LEN // 8)

    def hand_over() -> None:
        ray.get(other.seventh.remote(ray.put(array)))

    told = {HANDED_OVER: _seconds(hand_over, max(count // 300, 1))}
    ray.shutdown()
    return told


def _run_dask(count: int, length: int) -> Told:
    import dask
    import dask.array
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.memory.spill": False, "distributed.worker.memory.target": False})
    places = np.random.default_rng(1).integers(0, length // 8, PLACE_COUNT)
    # One other process holds the array, and works on it.
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, memory_limit=0, dashboard_address=None) as cluster, Client(cluster) as client:
        far = client.persist(dask.array.full(length // 8, 0.5, chunks=16 << 20 >> 3))
        works = (lambda: far[::16].sum().compute(), lambda: far[places].compute(), lambda: far.sum().compute())
        return {case: _seconds(work, max(count // 300, 1)) for case, work in zip(sums(length), works)}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _run_mooncake(count: int, _: int) -> Told:
    import mooncake
    from mooncake.store import MooncakeDistributedStore

    program = os.path.join(os.path.dirname(mooncake.__file__), "mooncake_master")
    port, web = _free_port(), _free_port()
    words = [program, f"--rpc_port={port}", "--enable_http_metadata_server=true", f"--http_metadata_server_port={web}"]
    words += [f"--metrics_port={_free_port()}", "--http_metadata_server_host=127.0.0.1"]
    master = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    holder: subprocess.Popen[str] | None = None
    try:
        time.sleep(2)
        where = (f"http://127.0.0.1:{web}/metadata", f"127.0.0.1:{port}")
        # Another process holds the pages: this one lends nothing.
        holder = subprocess.Popen([sys.executable, "-m", "hanare._peers", "mooncake-holder", *where], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        while "holds" not in (line := holder.stdout.readline()):
            if not line:
                raise RuntimeError("the process that holds the pages ended")
        store = MooncakeDistributedStore()
        if store.setup(f"127.0.0.1:{_free_port()}", where[0], 0, 64 << 20, "tcp", "", where[1]) != 0:
            raise RuntimeError("setup was refused")
        length, keys = 256 << 10, [f"page {number}" for number in range(32)]
        data = np.random.default_rng(1).integers(0, 255, (32, length), np.uint8)
        into = np.empty_like(data)
        for memory in (data, into):
            if store.register_buffer(memory.ctypes.data, memory.nbytes) != 0:
                raise RuntimeError("a buffer was not registered")
        lengths = [length] * 32
        outward, inward = [row.ctypes.data for row in data], [row.ctypes.data for row in into]
        turn = iter(range(1 << 40))

        def put() -> None:
            number = next(turn)
            fresh = [f"{number} {key}" for key in keys]
            assert all(each == 0 for each in store.batch_put_from(fresh, outward, lengths))

        def get() -> None:
            assert all(each == length for each in store.batch_get_into(keys, inward, lengths))

        assert all(each == 0 for each in store.batch_put_from(keys, outward, lengths))
        get()
        assert (data == into).all()
        turns = max(count // 100, 1)
        return {PAGES_GET: _seconds(get, turns), PAGES_PUT: _seconds(put, turns)} | _values_in_mooncake(store, data, into, count)
    finally:
        if holder is not None:
            holder.kill()
            holder.wait()
        master.kill()
        master.wait()


def _values_in_mooncake(store: Any, data: Any, into: Any, count: int) -> Told:
    """One value after another, to and from registered memory. A key's value never changes there, so each put has a key of its own."""
    turn, told, outward, inward = iter(range(1 << 40)), Told(), data.ctypes.data, into.ctypes.data
    for length in STORE_LENGTHS:

        def put(length: int = length) -> None:
            assert store.put_from(f"{length} {next(turn)}", outward, length) == 0

        def get(length: int = length) -> None:
            assert store.get_into(f"{length} at {next(turn) % STORED}", inward, length) == length

        for number in range(STORED):
            assert store.put_from(f"{length} at {number}", outward, length) == 0
        turns = max(count // (100 if length == 1 << 20 else 10), 1)
        told |= {STORE_GETS["node=1", length]: _seconds(get, turns), STORE_PUTS["node=1", length]: _seconds(put, turns)}
    return told


def _hold_for_mooncake(metadata: str, master: str) -> None:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    if store.setup(f"127.0.0.1:{_free_port()}", metadata, 2 << 30, 16 << 20, "tcp", "", master) != 0:
        raise RuntimeError("setup was refused")
    print("holds", flush=True)
    sys.stdin.read()


def main() -> None:
    """Run one peer."""
    peer, *words = sys.argv[1:]
    if peer == "mooncake-holder":
        return _hold_for_mooncake(*words)
    runs = {"mpi": _run_mpi, "dragon": _run_dragon, "mooncake": _run_mooncake, "ray": _run_ray, "dask": _run_dask}
    told = runs[peer](*map(int, words))
    if told:
        print(json.dumps(told), flush=True)
    if peer == "mooncake":
        # Its threads would wait for the master.
        os._exit(0)


if __name__ == "__main__":
    main()
