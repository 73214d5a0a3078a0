"""LMCache's storage plug-in: its own storage manager loads it, stores chunks, looks them up by batches and loads them; what is late or lost is a miss."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest

import hanare
from hanare import _node

REASON = "lmcache is not installed: pip install lmcache==0.5.6 (it is too large for this project's own environment)"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("lmcache", reason=REASON)
if version("lmcache") != "0.5.6":
    pytest.skip(f"lmcache is {version('lmcache')}, and the plug-in is for 0.5.6", allow_module_level=True)

from lmcache.utils import CacheEngineKey  # noqa: E402
from lmcache.v1.config import LMCacheEngineConfig  # noqa: E402
from lmcache.v1.event_manager import EventManager  # noqa: E402
from lmcache.v1.metadata import LMCacheMetadata  # noqa: E402
from lmcache.v1.storage_backend.storage_manager import StorageManager  # noqa: E402

#: Tokens of a chunk, which has 16 KiB then.
CHUNK = 16


class Server:
    """LMCache's storage of one server, with the plug-in on the pool of a node."""

    def __init__(self, socket: str, name: str, **settings: Any) -> None:
        told = {"name": name, "socket": socket, "bytes": 4 << 20, "place": "node=1", **settings}
        extra = {f"hanare.{key}": value for key, value in told.items()}
        extra |= {"storage_plugin.ours.module_path": "hanare.lmcache", "storage_plugin.ours.class_name": "HanareBackend"}
        config = LMCacheEngineConfig.from_defaults(
            chunk_size=CHUNK, local_cpu=False, max_local_cpu_size=0.05, storage_plugins=["ours"], extra_config=extra
        )
        self.metadata = LMCacheMetadata("model", 1, 1, 0, 0, torch.bfloat16, (4, 2, CHUNK, 2, 32), chunk_size=CHUNK)
        self.manager = StorageManager(config, self.metadata, EventManager())
        self.backend = self.manager.storage_backends.get("ours")

    def chunk(self, number: int, tokens: int = CHUNK) -> Any:
        """A chunk in LMCache's host memory, whose bytes say which one it is."""
        obj = self.manager.allocate(self.metadata.get_shapes(tokens), self.metadata.get_dtypes())
        assert obj is not None
        obj.tensor.copy_(content(number, tokens))
        return obj

    def put(self, numbers: list[int], tokens: int = CHUNK) -> None:
        """Store chunks as LMCache's engine does, and wait for them."""
        keys = [key(number) for number in numbers]
        self.manager.batched_put(keys, [self.chunk(number, tokens) for number in numbers])
        eventually(lambda: not any(self.backend.exists_in_put_tasks(each) for each in keys))

    def stop(self) -> None:
        self.manager.close()


def key(number: int) -> Any:
    return CacheEngineKey("model", 1, 0, number, torch.bfloat16)


def content(number: int, tokens: int = CHUNK) -> Any:
    return torch.rand((2, 4, tokens, 64), generator=torch.Generator().manual_seed(number)).to(torch.bfloat16)


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; a busy machine takes its time."""
    ends = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.002)


def same(obj: Any, number: int, tokens: int = CHUNK) -> bool:
    """Say whether a loaded chunk is that one, and give its memory back."""
    is_same = obj is not None and torch.equal(obj.tensor, content(number, tokens))
    if obj is not None:
        obj.ref_count_down()
    return is_same


@pytest.fixture
def servers(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> Iterator[tuple[Server, Server]]:
    made = Server(nodes.sockets[0], name), Server(nodes.sockets[1], name)
    yield made
    for server in made:
        server.stop()
    pool.store(name).destroy()


def test_a_server_loads_what_another_stored(servers: tuple[Server, Server]) -> None:
    one, other = servers
    numbers = list(range(10))
    one.put(numbers)
    keys = [key(number) for number in [*numbers, 99, 0]]
    assert other.manager.batched_contains(keys) == (10, {"ours": keys[:10]}) and one.backend.contains(keys[0])
    loaded = other.manager.batched_get(keys, location="ours")
    assert all(same(obj, number) for number, obj in zip(numbers, loaded)) and loaded[10] is None and same(loaded[11], 0)
    assert same(one.manager.get(key(3)), 3) and one.manager.get(key(99)) is None
    assert same(other.backend.get_non_blocking(key(4)).result(), 4)
    assert other.backend.counts() == {"hits": 12, "misses": 1, "stored": 0, "full": 0, "errors": 0}
    # A chunk that is there is not written again, and its call comes all the same.
    told: list[Any] = []
    obj = one.chunk(3)
    assert [each.result() for each in one.backend.batched_submit_put_task([key(3)], [obj], on_complete_callback=told.append)] == [True]
    eventually(lambda: told == [key(3)])
    obj.ref_count_down()
    assert obj.get_ref_count() == 0 and one.backend.counts()["stored"] == 10
    assert other.manager.remove(key(0), ["ours"]) and not one.backend.contains(key(0)) and not one.backend.remove(key(0))


def test_tasks_look_up_and_load_a_prefix(servers: tuple[Server, Server]) -> None:
    one, other = servers
    one.put([0, 1, 2, 4])
    keys = [key(number) for number in range(6)]

    async def both() -> tuple[int, list[Any]]:
        return await other.backend.batched_async_contains("lookup", keys), await other.backend.batched_get_non_blocking("lookup", keys)

    known, loaded = asyncio.run(both())
    assert known == len(loaded) == 3 and all(same(obj, number) for number, obj in enumerate(loaded))
    free = other.manager.allocator_backend.memory_allocator
    assert free.memcheck()


def test_the_last_chunk_may_be_short(servers: tuple[Server, Server]) -> None:
    one, other = servers
    one.put([7], tokens=5)
    assert same(other.manager.get(key(7)), 7, tokens=5)
    # Bytes that are no whole tokens are no chunk.
    one.backend._pages.store.put(key(8).to_string(), bytes(1000))
    assert other.manager.get(key(8)) is None and other.backend.contains(key(8))
    # Nor is a value that is longer than a chunk.
    one.backend._pages.store.put(key(9).to_string(), bytes(100_000))
    assert other.manager.get(key(9)) is None
    assert other.manager.allocator_backend.memory_allocator.memcheck()


def test_pins_hold_until_the_last_is_ended(servers: tuple[Server, Server]) -> None:
    one, other = servers
    one.put([0, 1])
    assert other.manager.batched_contains([key(0), key(1), key(2)], pin=True)[0] == 2
    assert other.backend.pin(key(0)) and not other.backend.pin(key(5))
    for first in range(100, 1000, 30):
        one.put(list(range(first, first + 30)))
    assert other.backend.batched_contains([key(0), key(1)]) == 2 and one.backend.batched_contains([key(100)]) == 0
    assert not other.backend.remove(key(0), force=False)
    other.manager.batched_unpin([key(0), key(1)], ["ours"])
    assert not other.backend.remove(key(0), force=False) and other.backend.remove(key(1), force=False)
    assert other.backend.unpin(key(0)) and other.backend.remove(key(0), force=False) and not other.backend.unpin(key(0))
    other.backend.touch_cache()


def test_a_full_store_says_so_and_keeps_nobody_waiting(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> None:
    # Keys without an end stay where those leave first that end first.
    server = Server(nodes.sockets[0], name, bytes=256 << 10, evict="ttl")
    objs = [server.chunk(number) for number in range(40)]
    done = server.backend.batched_submit_put_task([key(number) for number in range(40)], objs)
    told = [each.result(timeout=60) for each in done]
    counts = server.backend.counts()
    assert 5 < sum(told) < 20 and counts["stored"] == sum(told) and counts["full"] == 40 - sum(told)
    assert server.backend.batched_contains([key(number) for number in range(40) if told[number]]) == sum(told)
    for obj in objs:
        obj.ref_count_down()
    server.stop()
    # Whatever comes after the end is not stored.
    assert not server.backend.batched_submit_put_task([], [])
    pool.store(name).destroy()


def test_what_makes_no_sense_is_refused(nodes: _node.Nodes, name: str) -> None:
    from hanare.lmcache import HanareBackend

    for settings in ({"colour": 1}, {"deadline": 0}, {"threads": 0}, {"evict": "fifo"}, {"bytes": 1}):
        # LMCache says so in its log, and goes on without the plug-in.
        server = Server(nodes.sockets[0], name, **settings)
        assert server.backend is None
        server.stop()
    config = LMCacheEngineConfig.from_defaults(use_layerwise=True)
    with pytest.raises(ValueError, match="layer"):
        HanareBackend(config, LMCacheMetadata("model", 1, 1, 0, 0, torch.bfloat16, (4, 2, CHUNK, 2, 32)))
    with pytest.raises(ValueError, match="config"):
        HanareBackend()


def test_chunks_of_a_stopped_or_lost_node_are_misses() -> None:
    nodes = _node.Nodes(2, "64MiB")
    server = Server(nodes.sockets[0], "kv", deadline=0.2)
    server.put([0, 1])
    nodes.processes[1].send_signal(19)
    # Each of its threads stops at its own time.
    os.waitpid(nodes.processes[1].pid, os.WUNTRACED)
    assert server.manager.get(key(0)) is None and server.backend.batched_contains([key(0)]) == 0
    nodes.processes[1].send_signal(18)
    eventually(lambda: same(server.manager.get(key(0)), 0))
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    assert server.manager.get(key(1)) is None and server.backend.batched_contains([key(0)], pin=True) == 0
    obj = server.chunk(2)
    assert [each.result() for each in server.backend.batched_submit_put_task([key(2)], [obj])] == [False]
    assert not server.backend.pin(key(0)) and not server.backend.remove(key(0)) and server.backend.counts()["errors"] > 0
    obj.ref_count_down()
    server.stop()
    nodes.stop()
