"""SGLang's hierarchical cache in the pool: a storage of its HiCache that programs on all hosts share. Made for SGLang 0.5.23.

::

    python -m sglang.launch_server ... --enable-hierarchical-cache --hicache-mem-layout page_first --hicache-storage-backend dynamic
        --hicache-storage-backend-extra-config '{"backend_name": "hanare", "module_path": "hanare.sglang",
        "class_name": "HanareStorage", "interface_v1": 1, "name": "kv", "pages": 4096, "place": "node=1"}'

Pages go between SGLang's host memory and the pool without a copy. Needs the package sglang, whose interface it is.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

from .errors import Error, UnknownRegion
from .kv import PageCache
from .pool import connect

__all__ = ["HanareStorage"]

_log = logging.getLogger(__name__)


def _lent(address: int, length: int) -> Any:
    """Memory of SGLang's own, which it keeps for the length of a call."""
    return np.frombuffer(memoryview((ctypes.c_ubyte * length).from_address(address)), np.uint8)


class HanareStorage(HiCacheStorage):  # type: ignore[misc]
    """A storage for HiCache. Pages of a node that is lost are absent, and said so in the log.

    Parameters
    ----------
    storage_config : HiCacheStorageConfig
        Its ``extra_config`` has ``name``, ``pages`` and ``place`` of the cache, as for `hanare.kv.PageCache`, and ``socket`` as for
        `hanare.connect`; all may be left out.
    kwargs : dict, optional
        What SGLang hands over besides; not used.

    Notes
    -----
    Pages have one size or two: of layouts ``page_first`` and ``page_first_direct``. Additional pools (``batch_get_v2``) are refused.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        told = dict(storage_config.extra_config or {})
        self._pool = connect(told.get("socket"))
        self._name, self._pages = str(told.get("name", "hicache")), int(told.get("pages", 1024))
        self._place = str(told.get("place", "local"))
        config = storage_config
        mine = "" if config.is_mla_model else f".{config.tp_rank}.{config.tp_size}"
        self._suffix = f".{config.model_name or ''}{mine}.{config.pp_rank}.{config.pp_size}"
        self._cache: PageCache | None = None

    def _of(self, page_len: int | None = None) -> PageCache | None:
        """The cache; made where it is not there, if the length of its pages is known by now."""
        if self._cache is None:
            try:
                if page_len is None:
                    self._pool.region(self._name)
                self._cache = PageCache(self._name, pool=self._pool, page=page_len or 1, pages=self._pages, place=self._place)
            except UnknownRegion:
                return None
        return self._cache

    def _keys(self, keys: Sequence[str], parts: int) -> list[str]:
        return [f"{key}{self._suffix}.{part}" for key in keys for part in range(parts)]

    def _pages_of(self, keys: Sequence[str], host_indices: Any) -> tuple[list[str], list[Any], int]:
        addresses, lengths = self.mem_pool_host.get_page_buffer_meta(host_indices)
        if not keys or len(addresses) % len(keys):
            raise ValueError(f"{len(addresses)} buffers for {len(keys)} pages")
        parts = len(addresses) // len(keys)
        return self._keys(keys, parts), [_lent(address, length) for address, length in zip(addresses, lengths)], parts

    def _each(self, called: str, buffers: list[Any], keys: list[str], parts: int) -> list[bool]:
        cache = self._of(max(map(len, buffers)))
        assert cache is not None
        try:
            done = [bool(each) for each in getattr(cache, called)(keys, buffers)]
        except (Error, ConnectionError, ValueError) as error:
            # Pages of another length than the cache's are of another model. An exception would end SGLang's thread.
            _log.warning("hanare: pages are taken for absent: %s", error)
            done = [False] * len(keys)
        return [all(done[at : at + parts]) for at in range(0, len(done), parts)]

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Read pages into SGLang's host memory; say of each whether it is there now."""
        names, buffers, parts = self._pages_of(keys, host_indices)
        self._parts = parts
        return self._each("get", buffers, names, parts)

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Write pages of SGLang's host memory; say of each whether it is there now."""
        names, buffers, parts = self._pages_of(keys, host_indices)
        self._parts = parts
        return self._each("put", buffers, names, parts)

    #: Buffers of a page, as the last batch had them.
    _parts = 1

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """Count keys, from the first on, whose pages are there."""
        cache = self._of()
        if cache is None or not keys:
            return 0
        try:
            return cache.prefix(self._keys(keys, self._parts)) // self._parts
        except (Error, ConnectionError) as error:
            _log.warning("hanare: pages are taken for absent: %s", error)
            return 0

    def exists(self, key: str) -> bool:
        """Whether a page is there."""
        return self.batch_exists([key]) == 1

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """Read one page into a tensor of this host, and return it; ``None`` where it is not there."""
        return self.batch_get([key], [target_location])[0]

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        """As `get`, of several."""
        done = self._each("get", [_tensor(each) for each in target_locations], self._keys(keys, 1), 1)
        return [target if there else None for target, there in zip(target_locations, done)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        """Write a tensor of this host as a page; say whether it is there now."""
        return self.batch_set([key], [value])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        """As `set`, of several; say whether all are there now."""
        return all(self._each("put", [_tensor(each) for each in values], self._keys(keys, 1), 1))

    def clear(self) -> None:
        """Take all pages away."""
        cache = self._of()
        if cache is not None:
            cache.clear()

    def close(self) -> None:
        """Let go of the cache; its pages stay."""
        if self._cache is not None:
            self._cache.close()


def _tensor(tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise ValueError("a page's bytes lie one after another; those of this tensor do not")
    return _lent(tensor.data_ptr(), tensor.numel() * tensor.element_size())
