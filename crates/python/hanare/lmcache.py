"""LMCache's storage plug-in over a store of the pool: chunks that servers on all hosts share. Made for LMCache 0.5.6.

::

    storage_plugins: ["hanare"]
    extra_config:
      storage_plugin.hanare.module_path: hanare.lmcache
      storage_plugin.hanare.class_name: HanareBackend
      hanare.name: kv
      hanare.bytes: 68719476736
      hanare.place: node=1

Chunks go between LMCache's host memory and the pool without a copy of Python's. Needs the package lmcache, whose interface it is.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from lmcache.logging import init_logger
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.storage_backend.abstract_backend import StoragePluginInterface

from ._pages import Pages

__all__ = ["HanareBackend"]

_log = init_logger(__name__)

#: The first word of all settings in LMCache's ``extra_config``.
_OURS = "hanare."
#: Pins of a server that are counted before those that have ended are looked for.
_PINS_MAX = 10_000


class HanareBackend(StoragePluginInterface):  # type: ignore[misc]
    """A storage of LMCache. What is late, or lies on a lost node, is a miss; what finds no room is not stored, at once.

    Parameters
    ----------
    config : LMCacheEngineConfig
        Its ``extra_config`` has the settings: ``hanare.name``, ``hanare.bytes``, ``hanare.evict``, ``hanare.entries``, ``hanare.place``, ``hanare.copies``
        and ``hanare.trust`` as for `hanare.Store`; ``hanare.socket`` as for `hanare.connect`; ``hanare.deadline``, seconds of a lookup or a load, 2 by
        default; ``hanare.threads``; ``hanare.pin``, seconds of a pin, ``pin_timeout_sec`` by default, and 0 for none.
    metadata : LMCacheMetadata
        Shapes and types of a chunk.
    local_cpu_backend : LocalCPUBackend, optional
        Where loaded chunks go. A server's scheduler has none, and only looks keys up.
    loop, dst_device
        As LMCache gives them; not used.

    Raises
    ------
    ValueError
        ``use_layerwise``, or a setting that is not known.

    Notes
    -----
    **Cost**: a lookup of many chunks is three messages to each node for each 256; a pin is one change of a key, each. Chunks are stored one
    after another by a thread.
    """

    def __init__(
        self,
        config: Any = None,
        metadata: Any = None,
        local_cpu_backend: Any = None,
        loop: asyncio.AbstractEventLoop | None = None,
        dst_device: str = "cpu",
    ) -> None:
        super().__init__(dst_device=dst_device, config=config, metadata=metadata, local_cpu_backend=local_cpu_backend, loop=loop)
        if config is None or metadata is None:
            raise ValueError("hanare: LMCache's config and metadata are needed")
        if config.use_layerwise:
            raise ValueError("hanare: no layers one by one: set use_layerwise to false")
        given = {key[len(_OURS) :]: value for key, value in (config.extra_config or {}).items() if key.startswith(_OURS)}
        self._pin_s = float(given.pop("pin", config.pin_timeout_sec))
        self._pages = Pages(given)
        self._format = MemoryFormat.KV_MLA_FMT if metadata.use_mla else MemoryFormat.KV_2LTD
        self._lock = threading.Lock()
        self._storing: Counter[Any] = Counter()
        #: Pins of this server by key: how many, and when the last of them ends by itself.
        self._pinned: dict[Any, tuple[int, float]] = {}

    def __str__(self) -> str:
        return "HanareBackend"

    def counts(self) -> dict[str, int]:
        """Count chunks that loads found (``hits``) and did not find, that were stored, that found no room (``full``), and refused calls."""
        return self._pages.counts()

    # Lookups.

    def contains(self, key: Any, pin: bool = False) -> bool:
        """Say whether a chunk is there, and keep it from leaving if so."""
        return self.batched_contains([key], pin) == 1

    def batched_contains(self, keys: list[Any], pin: bool = False) -> int:
        """Count chunks, from the first on, that are there, and keep those from leaving."""
        known = self._pages.prefix([key.to_string() for key in keys])
        if pin and self._pin_s:
            # One that left since the lookup ends the prefix.
            for at, key in enumerate(keys[:known]):
                if not self.pin(key):
                    return at
        return known

    async def batched_async_contains(self, lookup_id: str, keys: list[Any], pin: bool = False) -> int:
        """As `batched_contains`, for a task."""
        return await asyncio.wrap_future(self._pages.loads.submit(self.batched_contains, keys, pin))

    def exists_in_put_tasks(self, key: Any) -> bool:
        """Say whether a chunk is being stored."""
        with self._lock:
            return self._storing[key] > 0

    # Stores.

    def batched_submit_put_task(
        self,
        keys: Sequence[Any],
        objs: list[Any],
        transfer_spec: Any = None,
        on_complete_callback: Callable[[Any], None] | None = None,
    ) -> list[Future[bool]]:
        """Begin to store chunks that are not there.

        Parameters
        ----------
        keys, objs
            The chunks. Their memory is kept until they are stored.
        transfer_spec
            Not used.
        on_complete_callback
            Called with each key whose chunk is there now.

        Returns
        -------
        list of Future
            Of each chunk, whether it is there now. ``False`` at once where nothing may leave to make room.
        """
        done: list[Future[bool]] = [Future() for _ in keys]
        with self._lock:
            self._storing.update(keys)
        for obj in objs:
            obj.ref_count_up()
        try:
            self._pages.stores.submit(self._store, list(keys), list(objs), done, on_complete_callback)
        except RuntimeError:
            # The backend is closed.
            self._end_store(list(keys), list(objs), done, [False] * len(done))
        return done

    def _store(self, keys: list[Any], objs: list[Any], done: list[Future[bool]], tell: Callable[[Any], None] | None) -> None:
        are_there = [False] * len(keys)
        try:
            are_there = self._pages.keep([key.to_string() for key in keys], [obj.byte_array for obj in objs])
        except Exception:
            # A future without an answer would hold chunks for ever.
            _log.exception("hanare: chunks are not stored")
        finally:
            self._end_store(keys, objs, done, are_there)
        for key, is_there in zip(keys, are_there):
            if is_there and tell is not None:
                try:
                    tell(key)
                except Exception:
                    _log.exception("hanare: the call after a stored chunk failed")

    def _end_store(self, keys: list[Any], objs: list[Any], done: list[Future[bool]], are_there: list[bool]) -> None:
        for obj in objs:
            obj.ref_count_down()
        with self._lock:
            self._storing.subtract(keys)
            self._storing = +self._storing
        for each, is_there in zip(done, are_there):
            each.set_result(is_there)

    # Loads.

    def get_blocking(self, key: Any) -> Any:
        """Load a chunk into LMCache's host memory; ``None`` without one, after the deadline, or without free host memory."""
        return self.batched_get_blocking([key])[0]

    def batched_get_blocking(self, keys: list[Any]) -> list[Any]:
        """As `get_blocking`, of several, by one batch."""
        if self.local_cpu_backend is None:
            return [None] * len(keys)
        shapes, types = self.metadata.get_shapes(), self.metadata.get_dtypes()
        into: list[Any] = []
        for _ in keys:
            # Waiting for host memory that this very call holds would never end.
            obj = self.local_cpu_backend.allocate(shapes, types, self._format, busy_loop=not into)
            if obj is None:
                break
            into.append(obj)
        try:
            lengths = self._pages.load([key.to_string() for key in keys[: len(into)]], [obj.byte_array for obj in into])
        except Exception:
            _log.exception("hanare: chunks are taken for absent")
            lengths = [0] * len(into)
        loaded = [self._loaded(obj, length) for obj, length in zip(into, lengths)]
        return loaded + [None] * (len(keys) - len(loaded))

    def _loaded(self, obj: Any, length: int) -> Any:
        """The chunk as LMCache wants it; ``None``, and its memory is free, where none was read."""
        full = obj.get_size()
        if length == full:
            return obj
        short = None
        if length and length * self.metadata.chunk_size % full == 0:
            tokens = length * self.metadata.chunk_size // full
            shapes, types = self.metadata.get_shapes(tokens), self.metadata.get_dtypes()
            short = self.local_cpu_backend.allocate(shapes, types, self._format, busy_loop=False)
        if short is not None:
            np.frombuffer(short.byte_array, np.uint8)[:] = np.frombuffer(obj.byte_array, np.uint8)[:length]
        elif length:
            _log.warning("hanare: a chunk of %d bytes is taken for absent; whole ones have %d", length, full)
        obj.ref_count_down()
        return short

    def get_non_blocking(self, key: Any, location: str | None = None) -> Future[Any]:
        """Begin to load a chunk."""
        return self._pages.loads.submit(self.get_blocking, key)

    async def batched_get_non_blocking(self, lookup_id: str, keys: list[Any], transfer_spec: Any = None) -> list[Any]:
        """Load chunks, and return them up to the first that is not there."""
        loaded = await asyncio.wrap_future(self._pages.loads.submit(self.batched_get_blocking, keys))
        known = next((at for at, obj in enumerate(loaded) if obj is None), len(loaded))
        for obj in loaded[known:]:
            if obj is not None:
                obj.ref_count_down()
        return loaded[:known]

    # Pins.

    def pin(self, key: Any) -> bool:
        """Keep a chunk from leaving until `unpin`, or until the pin ends by itself; say whether it was there."""
        if not self._pin_s:
            return self._pages.exists([key.to_string()])[0]
        if not self._pages.pin(key.to_string(), self._pin_s):
            return False
        now = time.monotonic()
        with self._lock:
            if len(self._pinned) >= _PINS_MAX:
                self._pinned = {each: (count, ends) for each, (count, ends) in self._pinned.items() if ends > now}
            self._pinned[key] = self._pins_of(key) + 1, now + self._pin_s
        return True

    def _pins_of(self, key: Any) -> int:
        count, ends = self._pinned.get(key, (0, 0.0))
        return count if ends > time.monotonic() else 0

    def unpin(self, key: Any) -> bool:
        """End a pin of this server; say whether there was one. With the last one all pins of the chunk end, those of other servers too."""
        with self._lock:
            count, ends = self._pinned.pop(key, (0, 0.0))
            if count > 1:
                self._pinned[key] = count - 1, ends
        return count > 1 or (count == 1 and self._pages.unpin(key.to_string()))

    # The whole.

    def remove(self, key: Any, force: bool = True) -> bool:
        """Take a chunk away; without `force` only one that this server has not pinned. Say whether it was there."""
        with self._lock:
            if not force and self._pins_of(key) > 0:
                return False
        return self._pages.remove(key.to_string())

    def touch_cache(self) -> None:
        """Nothing: lookups and loads note the use."""

    def get_allocator_backend(self) -> Any:
        """LMCache's host memory."""
        if self.local_cpu_backend is None:
            raise RuntimeError("hanare: a scheduler has no host memory for chunks")
        return self.local_cpu_backend

    def close(self) -> None:
        """Wait for what was begun. Chunks stay in the pool."""
        self._pages.close()
