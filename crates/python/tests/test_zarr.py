"""The store passes zarr's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import Buffer, cpu
from zarr.testing.store import StoreTests

import hanare
from hanare.zarr import HanareStore


class TestStore(StoreTests[HanareStore, cpu.Buffer]):
    store_cls = HanareStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, pool: hanare.Pool, name: str) -> Any:
        yield {"path": name}
        files = HanareStore(name)
        for key in files._keys(""):
            files._files.delete(files._of(key))

    async def set(self, store: HanareStore, key: str, value: Buffer) -> None:
        store._files.put(store._of(key), value.to_bytes())

    async def get(self, store: HanareStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(store._files.get(store._of(key)))

    def test_store_repr(self, store: HanareStore) -> None:
        assert repr(store).startswith("HanareStore('hanare://")

    def test_store_supports_writes(self, store: HanareStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: HanareStore) -> None:
        assert store.supports_listing


def test_an_array_in_chunks_over_both_nodes(pool: hanare.Pool, name: str) -> None:
    store = HanareStore(name, place="node=1")
    made = zarr.create_array(store, shape=(100, 100), chunks=(30, 40), dtype="f8")
    values = np.arange(10_000.0).reshape(100, 100)
    made[:] = values
    again = zarr.open_array(HanareStore(name), mode="r")
    np.testing.assert_array_equal(again[5:95:10, 50], values[5:95:10, 50])
    for key in store._keys(""):
        store._files.delete(store._of(key))
