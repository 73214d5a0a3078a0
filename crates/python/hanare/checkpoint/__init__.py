"""Checkpoints that survive: arrays and states in regions with copies, each shard with a checksum that is verified at load.

>>> hanare.checkpoint.save(pool, "model", {"weights": weights, "step": step})
>>> state = hanare.checkpoint.load(pool, "model")

A save writes a new *generation*, and switches to it in one step when all of it is there. A load takes the newest generation that is whole. Where
one of its shards is not as it was saved, `load` warns and takes the generation before. `StorageWriter` and `StorageReader` do the same for
``torch.distributed.checkpoint``. Importing this package needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arrays import load, save

if TYPE_CHECKING:
    from ._torch import StorageReader, StorageWriter

__all__ = ["StorageReader", "StorageWriter", "load", "save"]


def __getattr__(name: str) -> Any:
    if name not in ("StorageReader", "StorageWriter"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _torch

    return getattr(_torch, name)
