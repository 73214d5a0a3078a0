"""Peers of the bench that bring processes of their own: each is a program of this file, run as ``python -m hanare._peers PEER COUNT``.

It prints one JSON object: seconds by case. What is missing is said in one line, and stands in the row.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, Callable

import numpy as np

#: The cases, as the bench names them.
LENGTHS = {"8 B": 8, "4 KiB": 4096, "1 MiB": 1 << 20}
GETS = {length: f"get {name}, other node, tcp" for name, length in LENGTHS.items()}
PUTS = {length: f"put {name}, other node, tcp" for name, length in LENGTHS.items()}
PAGES_GET, PAGES_PUT = ("32 pages of 256 KiB got, other node", "32 pages of 256 KiB put, other node")

#: What each peer measures.
CASES = {
    "mpi4py RMA": [*GETS.values(), *PUTS.values()],
    "Dragon DDict, of one host": [*GETS.values(), *PUTS.values()],
    "Mooncake Store": [PAGES_GET, PAGES_PUT],
}
#: Seconds that a peer has for all.
_PEER_S = 60

Told = dict[str, float]


class Missing(Exception):
    """Why a peer cannot be measured here."""


def _need(module: str, package: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise Missing(f"pip install {package}")


def _mpi(count: int) -> list[str]:
    _need("mpi4py", "mpi4py")
    launcher = shutil.which("mpirun")
    if launcher is None:
        raise Missing("there is no mpirun")
    words = [launcher, "-n", "2", "--oversubscribe", "--allow-run-as-root", "--mca", "btl", "self,tcp", "--mca", "osc", "pt2pt"]
    return [*words, sys.executable, "-m", "hanare._peers", "mpi", str(count)]


def _dragon(count: int) -> list[str]:
    _need("dragon", "dragonhpc")
    launcher = shutil.which("dragon", path=os.path.dirname(sys.executable)) or shutil.which("dragon")
    if launcher is None:
        raise Missing("there is no command dragon")
    return [launcher, "-s", __file__, "dragon", str(count)]


def _mooncake(count: int) -> list[str]:
    _need("mooncake", "mooncake-transfer-engine-non-cuda")
    return [sys.executable, "-m", "hanare._peers", "mooncake", str(count)]


PROGRAMS: dict[str, Callable[[int], list[str]]] = {"mpi4py RMA": _mpi, "Dragon DDict, of one host": _dragon, "Mooncake Store": _mooncake}


def measured(program: Callable[[int], list[str]], is_quick: bool) -> Told | str:
    """Run a peer; return its seconds by case, or why there are none."""
    try:
        words = program(20 if is_quick else 1000)
    except Missing as missing:
        return str(missing)
    # Their launchers look for the interpreter and its commands on the search path.
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PEER_S, env=environment)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_PEER_S} s"
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            told: Told = json.loads(line)
            return told
    last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
    return f"it ended with status {done.returncode}: {last[:200]}"


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


def _run_mpi(count: int) -> Told:
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
            told[GETS[length]], told[PUTS[length]] = _seconds(get, turns), _seconds(put, turns)
        window.Unlock_all()
    # The other rank's library has to look after the window meanwhile: a barrier that polls does.
    waits = world.Ibarrier()
    while not waits.Test():
        pass
    window.Free()
    return told


def _run_dragon(count: int) -> Told:
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
    shared.destroy()
    return told


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _run_mooncake(count: int) -> Told:
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
        return {PAGES_GET: _seconds(get, turns), PAGES_PUT: _seconds(put, turns)}
    finally:
        if holder is not None:
            holder.kill()
            holder.wait()
        master.kill()
        master.wait()


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
    runs = {"mpi": _run_mpi, "dragon": _run_dragon, "mooncake": _run_mooncake}
    told = runs[peer](int(words[0]))
    if told:
        print(json.dumps(told), flush=True)
    if peer == "mooncake":
        # Its threads would wait for the master.
        os._exit(0)


if __name__ == "__main__":
    main()
