"""Storage of ``torch.distributed.checkpoint`` in regions of the pool.

Each rank writes its shards into a region of its own. The coordinator writes the index when all have, and switches to the generation. At load
all ranks check a part of the shards each, and agree on the newest generation that is whole, before a tensor is touched.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import Metadata, StorageReader as _Reader, StorageWriter as _Writer
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .._trust import Trusted
from ..errors import BadUse, DamagedCheckpoint, NotTrusted
from ..pool import Pool
from ._generations import Generations, why_not
from ._index import TORCH, Index
from ._shards import Bytes, Damaged, PartReader, Shard, region_len

__all__ = ["StorageReader", "StorageWriter"]


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _name_of(checkpoint_id: Any, before: str) -> str:
    return before if checkpoint_id is None else str(checkpoint_id)


def _bytes_of(tensor: torch.Tensor) -> Bytes:
    """Return a tensor's elements as bytes, in the order of C, on the CPU."""
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy() if plain.numel() else np.empty(0, np.uint8)


def _planned_len(item: WriteItem) -> int:
    data = item.tensor_data
    assert data is not None
    return int(np.prod(tuple(data.chunk.sizes), dtype=object)) * data.properties.dtype.itemsize


class StorageWriter(_Writer):  # type: ignore[misc]
    """Saves states by ``torch.distributed.checkpoint.save(state, storage_writer=StorageWriter(pool, "model"))``.

    Parameters
    ----------
    pool : Pool or None
        The pool; ``None`` for that of `connect`.
    name : str
        The checkpoint's name; a ``checkpoint_id`` of a save takes its place.
    copies, keep, place, mode, trust
        As for `hanare.checkpoint.save`. With ``place="local"`` each rank's shards are at its own host, and at as many others as it takes.

    Notes
    -----
    Each rank opens the pool by itself. The errors of `hanare.checkpoint.save` come within torch's ``CheckpointException``.
    """

    def __init__(
        self, pool: Pool | None, name: str, *, copies: int = 2, keep: int = 2, place: str = "local", mode: int = 0o600, trust: Trusted = None
    ) -> None:
        super().__init__()
        if keep < 1:
            raise ValueError("at least one generation is kept")
        self._pool, self._name, self._trust, self._keep = pool, name, trust, keep
        self._terms = place, mode, copies
        self._generation = 0

    def _generations(self) -> Generations:
        return Generations(self._pool, self._name, self._trust)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin another save, of the checkpoint of that name where one is given."""
        self._name, self._generation = _name_of(checkpoint_id, self._name), 0

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **kwargs: Any) -> None:
        """Hear how the ranks save. **Errors**: `BadUse` where each saves an index of its own."""
        if not kwargs.get("use_collectives", True):
            raise BadUse("a generation has one index of all ranks: save with use_collectives=True")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Take a number for the generation, and tell it to all ranks."""
        self._generation = self._generations().begin(*self._terms)
        return [dataclasses.replace(plan, storage_data=(self._generation, rank)) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's shards into a region."""
        generation, rank = plan.storage_data
        texts = {at: planner.resolve_data(item).getvalue() for at, item in enumerate(plan.items) if item.type == WriteItemType.BYTE_IO}
        lengths = (len(texts[at]) if at in texts else _planned_len(item) for at, item in enumerate(plan.items))
        part = self._generations().part(generation, rank, region_len(lengths), *self._terms)
        results = []
        for at, item in enumerate(plan.items):
            data, form = (np.frombuffer(texts[at], np.uint8), None) if at in texts else self._tensor(item, planner)
            shard = part.add(data)
            results.append(WriteResult(index=item.index, size_in_bytes=shard.nbytes, storage_data=(shard.to_json(), form)))
        return _done(results)

    def _tensor(self, item: WriteItem, planner: SavePlanner) -> tuple[Bytes, tuple[Any, ...]]:
        tensor = planner.resolve_data(item)
        data = _bytes_of(tensor)
        if data.nbytes != _planned_len(item):
            raise BadUse(f"'{item.index.fqn}' has {data.nbytes} bytes, and {_planned_len(item)} by its plan: save it with a planner that changes none")
        return data, (tensor.dtype, tuple(tensor.shape))

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, and switch to the generation."""
        flat = [result for of_rank in results for result in of_rank]
        shards = [Shard.from_json(result.storage_data[0]) for result in flat]
        metadata.storage_data = {result.index: result.storage_data for result in flat}
        index = Index(TORCH, shards, None, pickle.dumps(metadata))
        self._generations().commit(self._generation, index, *self._terms, self._keep)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Return False: no name alone leads here, a writer is given."""
        return False


class StorageReader(_Reader):  # type: ignore[misc]
    """Loads states by ``torch.distributed.checkpoint.load(state, storage_reader=StorageReader(pool, "model"))``.

    Parameters
    ----------
    pool : Pool or None
        The pool; ``None`` for that of `connect`.
    name : str
        The checkpoint's name; a ``checkpoint_id`` of a load takes its place.
    trust : int, str, or several of them, optional
        Users whose checkpoint is loaded, beside this program's own. Torch's metadata and objects are pickles, so they may run programs.
    process_group : ProcessGroup, optional
        The ranks that load together, as for torch's ``load``; by default all.
    no_dist : bool
        Whether this program loads alone, as for torch's ``load``.

    Warns
    -----
    OlderCheckpointWarning
        A newer generation is damaged, and an older one is loaded by all ranks.

    Notes
    -----
    All shards are read twice: once by one rank, to check them, and then by those that need them.
    """

    def __init__(
        self, pool: Pool | None, name: str, *, trust: Trusted = None, process_group: Any = None, no_dist: bool = False
    ) -> None:
        super().__init__()
        self._pool, self._name, self._trust = pool, name, trust
        self._group, self._is_alone = process_group, no_dist
        self._reader: PartReader | None = None
        self._stored: dict[Any, Any] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin another load, of the checkpoint of that name where one is given."""
        self._name = _name_of(checkpoint_id, self._name)

    def _ranks(self) -> tuple[int, int]:
        """Return this program's rank among those that load together, and their number."""
        if self._is_alone or not (dist.is_available() and dist.is_initialized()):
            return 0, 1
        return dist.get_rank(self._group), dist.get_world_size(self._group)

    def _gather(self, own: Any) -> list[Any]:
        """Return what each rank has, in their order."""
        _, count = self._ranks()
        if count == 1:
            return [own]
        all_of_them: list[Any] = [None] * count
        dist.all_gather_object(all_of_them, own, group=self._group)
        return all_of_them

    def _agree(self, work: Callable[[], Any]) -> Any:
        """Return what rank 0 finds, or raise what it raises, in all ranks."""
        found: Any = None
        if self._ranks()[0] == 0:
            try:
                found = work()
            except Exception as error:
                found = error
        found = self._gather(found)[0]
        if isinstance(found, Exception):
            raise found
        return found

    def _check(self, generations: Generations, number: int) -> str:
        """Check this rank's part of the shards; return what any rank has found wrong."""
        rank, count = self._ranks()
        failed: Exception | None = None
        why = ""

        def work() -> None:
            index = generations.index(number)
            own = index.shards[rank::count]
            reader = generations.reader(number, own)
            for shard in own:
                reader.check(shard)

        try:
            why = why_not(work)
        except Exception as error:
            failed = error
        # Every rank comes here, whatever it found.
        told = self._gather((why, failed))
        for _, of_rank in told:
            if of_rank is not None:
                raise of_rank
        return "; ".join(sorted({each for each, _ in told if each}))

    def read_metadata(self) -> Metadata:
        """Choose the newest generation that is whole, and return its metadata.

        Raises
        ------
        NoCheckpoint, DamagedCheckpoint
            As for `hanare.checkpoint.load`.
        NotTrusted
            Users that are not trusted made it, or may have written to it.
        """
        generations = Generations(self._pool, self._name, self._trust)
        number = generations.choose(lambda number: self._check(generations, number), self._agree)
        index = generations.index(number)
        if index.kind != TORCH:
            raise BadUse(f"checkpoint '{self._name}' was not saved by torch: load it by hanare.checkpoint.load")
        if not generations.is_trusted(number):
            raise NotTrusted(f"users that are not trusted may have written to checkpoint '{self._name}', and torch runs what it reads; trust= names users")
        self._reader = generations.reader(number, index.shards)
        metadata: Metadata = pickle.loads(index.body)
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Keep where the shards lie."""
        self._stored = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what this rank needs. **Errors**: `DamagedCheckpoint` where a shard has changed since it was checked."""
        for request in plan.items:
            told, form = self._stored[request.storage_index]
            data = self._read(Shard.from_json(told))
            if request.type == LoadItemType.BYTE_IO:
                planner.load_bytes(request, io.BytesIO(data.tobytes()))
                continue
            dtype, shape = form
            stored = torch.from_numpy(data).view(dtype).reshape(shape) if data.nbytes else torch.empty(shape, dtype=dtype)
            for axis, (offset, length) in enumerate(zip(request.storage_offsets, request.lengths, strict=True)):
                stored = stored.narrow(axis, offset, length)
            target = planner.resolve_tensor(request).detach()
            if target.size() != stored.size():
                raise BadUse(f"'{request.dest_index.fqn}' has the shape {tuple(target.size())}, and {tuple(stored.size())} in the checkpoint")
            target.copy_(stored)
            planner.commit_tensor(request, target)
        return _done(None)

    def _read(self, shard: Shard) -> Bytes:
        assert self._reader is not None, "metadata are read first"
        try:
            return self._reader.read(shard)
        except Damaged as damaged:
            raise DamagedCheckpoint(f"checkpoint '{self._name}' has changed since it was checked: {damaged}; load it again") from damaged

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Return False: no name alone leads here, a reader is given."""
        return False
