"""vLLM's tiers: its own tiering manager stores blocks in a store of the pool and loads them in another server; so does its file tier on a mount."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import hanare
from hanare import _node

REASON = "vllm is not installed: pip install vllm==0.33.0 (it is too large for this project's own environment)"
pytest.importorskip("torch", reason=REASON)
pytest.importorskip("vllm", reason=REASON)
if version("vllm") != "0.33.0":
    pytest.skip(f"vllm is {version('vllm')}, and the tier is for 0.33.0", allow_module_level=True)

from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key  # noqa: E402
from vllm.v1.kv_offload.config import (  # noqa: E402
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # noqa: E402

BLOCK = 64 << 10
STEP = ScheduleEndContext([], [])

_numbers = itertools.count()


class Server:
    """vLLM's tiering manager, as its scheduler has it, with one secondary tier. Blocks of its host memory are written and read in place."""

    def __init__(self, tier: dict[str, Any], blocks: int = 64) -> None:
        config = OffloadingConfig(
            groups=(OffloadingGroupConfig(16, ("layer.0",), 0),),
            worker_kv_bytes_per_block=BLOCK,
            enable_kv_cache_events=False,
            extra_config={"cpu_bytes_to_use": blocks * BLOCK, "secondary_tiers": [tier]},
            engine_id=f"hanare-test-{os.getpid()}-{next(_numbers)}",
            model=OffloadingModelConfig("org/model", "float16"),
            cache=OffloadingCacheConfig(16, 1),
            parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
        )
        self.manager = TieringOffloadingSpec(config).get_manager()
        self.tier = self.manager.secondary_tiers[0]

    def _memory(self, number: int) -> memoryview:
        return self.manager.primary_tier.get_kv_memoryview().cast("B")[int(number) * BLOCK : (int(number) + 1) * BLOCK]

    def step(self) -> None:
        """End a step of the scheduler."""
        self.manager.on_schedule_end(STEP)

    def request(self) -> ReqContext:
        request = ReqContext(f"request {next(_numbers)}")
        self.manager.on_new_request(request)
        return request

    def submit(self, numbers: list[int]) -> None:
        """Write blocks in host memory, as the GPU does, and let the tier begin to store them."""
        request = self.request()
        out = self.manager.prepare_store([key(number) for number in numbers], request)
        assert out is not None
        for each, place in zip(out.keys_to_store, out.store_spec.chunk_ids):
            self._memory(place)[:] = content(each)
        self.manager.complete_store(out.keys_to_store, request)
        self.step()
        self.manager.on_request_finished(request)

    def store(self, numbers: list[int]) -> None:
        self.submit(numbers)
        self.settle()

    def settle(self) -> None:
        """Step until no job is under way."""
        eventually(lambda: self.step() or not self.manager._jobs)  # type: ignore[func-returns-value]

    def load(self, numbers: list[int]) -> list[bool]:
        """Ask for blocks until all are there or are not; check the bytes of those that are."""
        request, keys = self.request(), [key(number) for number in numbers]
        told: list[LookupResult] = []

        def is_known() -> bool:
            told[:] = [self.manager.lookup(each, request) for each in keys]
            self.step()
            return all(each in (LookupResult.HIT, LookupResult.MISS) for each in told)

        eventually(is_known)
        there = [each for each, result in zip(keys, told) if result is LookupResult.HIT]
        for each, place in zip(there, self.manager.prepare_load(there, request).chunk_ids if there else ()):
            assert self._memory(place) == content(each)
        self.manager.complete_load(there, request)
        self.manager.on_request_finished(request)
        return [result is LookupResult.HIT for result in told]

    def stop(self) -> None:
        self.manager.shutdown()


def key(number: int) -> Any:
    return make_offload_key(number.to_bytes(32, "big"), 0)


def content(of: Any) -> bytes:
    return random.Random(bytes(of)).randbytes(BLOCK)


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; a busy machine takes its time."""
    ends = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.002)


def tier(socket: str, name: str, **settings: Any) -> dict[str, Any]:
    ours = {"type": "HanareTier", "module_path": "hanare.vllm", "socket": socket, "name": name, "bytes": 8 << 20, "place": "node=1"}
    return {**ours, **settings}


@pytest.fixture
def servers(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> Iterator[tuple[Server, Server]]:
    made = Server(tier(nodes.sockets[0], name)), Server(tier(nodes.sockets[1], name))
    yield made
    for server in made:
        server.stop()
    pool.store(name).destroy()


def test_a_server_loads_what_another_stored(servers: tuple[Server, Server]) -> None:
    one, other = servers
    one.store(list(range(20)))
    assert other.load([*range(10), 99, 10]) == [True] * 10 + [False, True]
    assert other.tier.counts() == {"hits": 11, "misses": 0, "stored": 0, "full": 0, "errors": 0}
    # A block that is there is not written again.
    one.store([20])
    other.store([15])
    assert one.tier.counts()["stored"] == 21 and other.tier.counts()["stored"] == 0
    assert other.load(list(range(21))) == [True] * 21


def test_a_block_that_leaves_between_lookup_and_load_is_a_miss(servers: tuple[Server, Server], pool: hanare.Pool, name: str) -> None:
    one, other = servers
    one.store([0, 1, 2])
    request, keys = other.request(), [key(number) for number in range(3)]
    eventually(lambda: other.step() or all(other.tier.lookup(each, request) is LookupResult.HIT for each in keys))  # type: ignore[func-returns-value]
    pool.store(name).remove(other.tier._names([keys[1]])[0])
    other.manager.on_request_finished(request)
    assert other.tier._pages.exists(other.tier._names(keys)) == [True, False, True]
    # The lookups are remembered for the length of a request: this one sees all three, and loads two.
    request = other.request()
    other.tier._lookups._lookup_state.clear()
    pages = other.tier._pages
    pages.exists, asked = lambda names: [True] * len(names), pages.exists
    try:
        assert other.load([0, 1, 2]) == [True, False, True]
    finally:
        pages.exists = asked
    assert other.tier.counts()["hits"] == 2 and other.tier.counts()["misses"] == 1


def test_a_full_tier_says_so_and_vllm_stops_offering(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> None:
    pressure = {"backpressure_cls": "EMABackpressureDetector", "failure_threshold": 3, "high_water_s": 1e6, "low_water_s": 1e-9}
    # Keys without an end stay where those leave first that end first.
    server = Server(tier(nodes.sockets[0], name, bytes=1 << 20, evict="ttl", backpressure=pressure))
    for first in range(0, 60, 10):
        server.store(list(range(first, first + 10)))
    counts = server.tier.counts()
    assert 5 < counts["stored"] < 16 and counts["full"] >= 14 and server.tier.bp_detector.is_under_pressure()
    assert counts["stored"] + counts["full"] < 60
    server.stop()
    pool.store(name).destroy()


def test_blocks_of_a_stopped_or_lost_node_are_misses() -> None:
    nodes = _node.Nodes(2, "64MiB")
    server = Server(tier(nodes.sockets[0], "kv", deadline=0.2), blocks=8)
    server.store(list(range(8)))
    server.store(list(range(8, 16)))
    nodes.processes[1].send_signal(19)
    # Each of its threads stops at its own time.
    os.waitpid(nodes.processes[1].pid, os.WUNTRACED)
    assert server.load([0, 1]) == [False, False]
    nodes.processes[1].send_signal(18)
    eventually(lambda: server.load([0, 1]) == [True, True])
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    assert server.load([2, 3]) == [False, False]
    server.store([20])
    assert server.tier.counts()["errors"] > 0
    server.manager.reset_cache()
    server.stop()
    nodes.stop()


def test_what_makes_no_sense_is_refused(nodes: _node.Nodes, name: str) -> None:
    for odd in ({"colour": 1}, {"deadline": 0}, {"threads": 65}):
        with pytest.raises(ValueError):
            Server(tier(nodes.sockets[0], name, **odd))
    with pytest.raises(hanare.Error):
        Server(tier(nodes.sockets[0], name, evict="fifo"))


def test_vllms_file_tier_works_on_a_mount(nodes: _node.Nodes, tmp_path: Path, name: str) -> None:
    if not os.access("/dev/fuse", os.W_OK) or os.geteuid() != 0:
        pytest.skip("a mount without fusermount3 needs root and /dev/fuse")
    folders, mounts = [tmp_path / "one", tmp_path / "other"], []
    for folder, socket in zip(folders, nodes.sockets):
        folder.mkdir()
        words = [_node.program(), "mount", str(folder), "--name", name]
        mounts.append(subprocess.Popen(words, env={**os.environ, "HANARE_NODE": socket}))
    try:
        eventually(lambda: all(map(os.path.ismount, folders)))
        one, other = (Server({"type": "fs", "root_dir": str(folder)}) for folder in folders)
        one.store(list(range(20)))
        assert other.load([*range(20), 99]) == [True] * 20 + [False]
        one.stop()
        other.stop()
    finally:
        for mount in mounts:
            mount.terminate()
            mount.wait()
