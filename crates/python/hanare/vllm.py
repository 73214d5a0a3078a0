"""A secondary tier of vLLM's KV offloading over a store of the pool: blocks that servers on all hosts share. Made for vLLM 0.33.0.

::

    vllm serve ... --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config":
        {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": 8589934592, "secondary_tiers": [
        {"type": "HanareTier", "module_path": "hanare.vllm", "name": "kv", "bytes": 68719476736, "place": "node=1"}]}}'

Blocks go between vLLM's host memory and the pool without a copy of Python's. Needs the package vllm, whose interface it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from typing import Any, ClassVar

from vllm.logger import init_logger
from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, OffloadKey, ReqContext, RequestOffloadingContext, ScheduleEndContext
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.async_lookup import AsyncLookupManager
from vllm.v1.kv_offload.tiering.base import JobId, JobResult, SecondaryTierManager, TransferJob

from ._pages import Pages

__all__ = ["HanareTier"]

_log = init_logger(__name__)


class _Lookups(AsyncLookupManager):  # type: ignore[misc]
    """vLLM's own thread of lookups: one batch for each step of the scheduler and request."""

    def __init__(self, tier: HanareTier) -> None:
        self._tier = tier
        super().__init__(tier_type=tier.tier_type)

    def batch_lookup(self, keys: list[OffloadKey], req_context: ReqContext) -> Iterable[bool]:
        return self._tier._pages.exists(self._tier._names(keys))


@dataclass
class _Ended:
    """A job that has ended, and its keys whose blocks are there now."""

    job: TransferJob
    done: list[OffloadKey]
    seconds: float


class HanareTier(SecondaryTierManager):  # type: ignore[misc]
    """A secondary tier of vLLM. What is late, or lies on a lost node, is a miss. A job whose blocks find no room has failed, at once.

    Parameters
    ----------
    offloading_spec, primary_kv_view, tier_type, backpressure_detector
        As vLLM gives them. The setting ``backpressure`` of the tier makes a detector: with its ``failure_threshold`` vLLM stops offering
        blocks for a while after so many jobs that found no room.
    locality : {"LOCAL", "REMOTE"}, optional
        As of vLLM's own tiers.
    settings
        The tier's other settings: ``name``, ``bytes``, ``evict``, ``entries``, ``place``, ``copies`` and ``trust`` as for `hanare.Store`; ``socket`` as for
        `hanare.connect`; ``deadline``, seconds of a lookup or a load, 2 by default; ``threads`` for loads, and as many for stores, 4 by default.

    Raises
    ------
    ValueError
        A setting that is not known.

    Notes
    -----
    Names of blocks are those of vLLM's file tier: servers share blocks where model, type, groups of layers and parallelism are the same. **Cost**: a
    lookup of a request's blocks is three messages to each node for each 256. A load is one batch; blocks are stored one after another.
    """

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        locality: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.locality = Locality(locality) if locality is not None else None
        self._pages = Pages(settings)
        # Names that depend on the parallelism, unless vLLM says that the bytes do not.
        self._mapper = FileMapper.from_offloading_spec("", offloading_spec, offloading_spec.blocks_per_chunk, parallel_agnostic=True)
        self._lock = threading.Lock()
        self._running: dict[JobId, Future[None]] = {}
        self._ended: list[_Ended] = []
        self._lookups = _Lookups(self)

    def _names(self, keys: Collection[OffloadKey]) -> list[str]:
        return [self._mapper.get_file_name(key) for key in keys]

    def _blocks(self, job: TransferJob) -> list[memoryview]:
        # A view that outlives its job would keep vLLM from releasing the memory.
        size, memory = self.block_size_bytes, self._primary_kv_view.cast("B")
        return [memory[int(number) * size : (int(number) + 1) * size] for number in job.chunk_ids]

    def counts(self) -> dict[str, int]:
        """Count blocks that loads found (``hits``) and did not find, that were stored, that found no room (``full``), and refused calls."""
        return self._pages.counts()

    # Lookups.

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """Say whether a block is there; ``RETRY`` until the batch of this step is back."""
        found = self._lookups.lookup(key, req_context)
        if found is None:
            return LookupResult.RETRY
        return LookupResult.HIT if found else LookupResult.MISS

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Nothing is kept of a request before its first lookup."""
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Forget a request's lookups."""
        self._lookups.cleanup(req_context.req_id)

    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        """Send the lookups of a step."""
        self._lookups.flush()

    # Jobs.

    def submit_store(self, job_metadata: TransferJob) -> None:
        """Begin to store blocks that are not there."""
        self._submit(self._pages.stores, self._store, job_metadata)

    def submit_load(self, job_metadata: TransferJob) -> None:
        """Begin to load blocks into vLLM's host memory."""
        self._submit(self._pages.loads, self._load, job_metadata)

    def _submit(self, threads: Executor, work: Callable[[TransferJob], list[bool]], job: TransferJob) -> None:
        with self._lock:
            self._running[job.job_id] = threads.submit(self._run, work, job)

    def _run(self, work: Callable[[TransferJob], list[bool]], job: TransferJob) -> None:
        began, are_there = time.monotonic(), [False] * len(job.keys)
        try:
            are_there = work(job)
        except Exception:
            _log.exception("hanare: a job has failed")
        finally:
            # A job that does not end would hold vLLM's host memory for ever.
            done = [key for key, is_there in zip(job.keys, are_there) if is_there]
            with self._lock:
                self._ended.append(_Ended(job, done, time.monotonic() - began))

    def _store(self, job: TransferJob) -> list[bool]:
        return self._pages.keep(self._names(job.keys), self._blocks(job))

    def _load(self, job: TransferJob) -> list[bool]:
        size = self.block_size_bytes
        return [length == size for length in self._pages.load(self._names(job.keys), self._blocks(job))]

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Tell of jobs that have ended since the last call. Blocks that a load did not find are misses from now on."""
        with self._lock:
            ended, self._ended = self._ended, []
            for each in ended:
                self._running.pop(each.job.job_id, None)
        return [self._result(each) for each in ended]

    def _result(self, ended: _Ended) -> JobResult:
        job, done = ended.job, ended.done
        is_whole = len(done) == len(job.keys)
        if job.is_promotion and not is_whole:
            there = set(done)
            self._lookups.mark_miss([key for key in job.keys if key not in there])
        return JobResult(
            job_id=job.job_id,
            success=is_whole,
            successful_keys=tuple(done) if job.is_promotion and done and not is_whole else None,
            transfer_time=ended.seconds,
            transfer_bytes=len(done) * self.block_size_bytes,
        )

    def drain_jobs(self) -> None:
        """Wait for all jobs; a load waits for its deadline at most."""
        with self._lock:
            running = list(self._running.values())
        wait(running)

    def shutdown(self) -> None:
        """Wait for what was begun, and end the threads. Blocks stay in the pool."""
        self._lookups.shutdown()
        self._pages.close()
