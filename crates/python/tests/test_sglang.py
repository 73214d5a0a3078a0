"""SGLang's storage: its own factory makes it, and pages of its own host memory go to the pool and to another server's host memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

import hanare
from hanare import _node

REASON = "sglang is not installed: pip install sglang==0.5.23 (it is too large for this project's own environment)"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("sglang", reason=REASON)
if version("sglang") != "0.5.23":
    pytest.skip(f"sglang is {version('sglang')}, and the storage is for 0.5.23", allow_module_level=True)

from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig  # noqa: E402
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory  # noqa: E402

#: Tokens of a page.
PAGE = 4


def memory(layout: str = "page_first") -> Any:
    """SGLang's host memory of a server without a GPU: 33 pages of three layers."""
    of_layer = [torch.zeros((64, 2, 32), dtype=torch.bfloat16) for _ in range(6)]
    places = torch.tensor([each.data_ptr() for each in of_layer], dtype=torch.uint64)
    buffers = KVBuffers(k=tuple(of_layer[:3]), v=tuple(of_layer[3:]), k_data_ptrs=places[:3], v_data_ptrs=places[3:], layout=KVBufferLayout.NHD)
    info = MHABufferInfo(
        buffers=buffers, page_size=PAGE, head_num=2, head_dim=32, v_head_dim=32, dtype=torch.bfloat16, device=torch.device("cpu")
    )
    made = MHATokenToKVPoolHost(info, 2.0, 0, PAGE, layout, pin_memory=False, device_capacity_tokens=64, start_layer=0, end_layer=3)
    made.kv_buffer.zero_()
    return made


def storage(socket: str, **settings: Any) -> Any:
    told = {"backend_name": "hanare", "module_path": "hanare.sglang", "class_name": "HanareStorage", "interface_v1": 1, "socket": socket, "pages": 64}
    config = HiCacheStorageConfig(0, 1, 0, 1, 0, 1, False, False, True, "org/model", extra_config={**told, **settings})
    return StorageBackendFactory.create_backend("dynamic", config, None)


def places(*pages: int) -> Any:
    """Places of the tokens of pages."""
    return torch.cat([torch.arange(PAGE) + PAGE * page for page in pages])


def page_of(its: Any, page: int) -> Any:
    return its.kv_buffer[:, PAGE * page : PAGE * (page + 1)]


def test_pages_go_from_one_servers_host_memory_to_anothers(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> None:
    one, other = (storage(socket, name=name, place="node=1") for socket in nodes.sockets)
    mine, its = memory(), memory()
    one.register_mem_pool_host(mine)
    other.register_mem_pool_host(its)
    assert other.batch_exists(["h0"]) == 0 and not other.exists("h0")
    mine.kv_buffer.copy_(torch.rand(mine.kv_buffer.shape, generator=torch.Generator().manual_seed(1)))
    keys = [f"h{number}" for number in range(5)]
    assert one.batch_set_v1(keys, places(*range(5))) == [True] * 5
    assert other.batch_exists([*keys, "none"]) == 5 and other.exists("h4")
    assert other.batch_get_v1(["h0", "h1", "none"], places(3, 1, 7)) == [True, True, False]
    assert torch.equal(page_of(its, 3), page_of(mine, 0)) and torch.equal(page_of(its, 1), page_of(mine, 1))
    assert not any(page_of(its, page).any() for page in (0, 2, 4, 5, 6, 7))
    one.clear()
    assert other.batch_exists(keys) == 0
    one.close()
    pool.remove(name)


def test_pages_that_sglang_copies(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> None:
    """As without ``interface_v1``: a page is one tensor."""
    one, other = (storage(socket, name=name, interface_v1=0) for socket in nodes.sockets)
    its = memory()
    its.kv_buffer.copy_(torch.rand(its.kv_buffer.shape, generator=torch.Generator().manual_seed(2)))
    data, target = its.get_data_page(0), its.get_dummy_flat_data_page()
    assert one.batch_set(["copied"], [data]) and other.batch_get(["copied", "none"], [target, target.clone()])[1] is None
    assert torch.equal(target, data) and other.get("copied", target) is target and one.set("again", data)
    assert other.batch_exists(["copied", "again", "none"]) == 2
    # Pages of another model are too long for this cache.
    assert one.batch_set(["long"], [torch.zeros(4 * data.numel(), dtype=data.dtype)]) is False and not one.exists("long")
    one.close()
    pool.remove(name)


def test_pages_of_a_lost_node_are_absent() -> None:
    nodes = _node.Nodes(2, "64MiB")
    made = storage(nodes.sockets[0], place="node=1")
    made.register_mem_pool_host(memory())
    assert made.batch_set_v1(["a", "b"], places(0, 1)) == [True, True]
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    assert made.batch_get_v1(["a", "b"], places(0, 1)) == [False, False]
    assert made.batch_set_v1(["c"], places(0)) == [False] and made.batch_exists(["a"]) == 0
    nodes.stop()
