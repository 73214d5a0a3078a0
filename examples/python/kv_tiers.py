"""Tiers of vLLM's KV offloading side by side: its file tier in main memory and on a mount of the pool, and the pool's own tier.

Each tier stores, looks up and loads the same blocks of host memory, through vLLM's own classes and without a GPU. Needs vllm 0.33.0; the mount
needs /dev/fuse, and fusermount3 where the user is not root.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from hanare import _node

BLOCKS, ROUNDS = 32, 5
STEP = ScheduleEndContext([], [])
numbers = itertools.count()


def spec(length: int) -> TieringOffloadingSpec:
    groups, parallel = (OffloadingGroupConfig(16, ("layer.0",), 0),), OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True)
    model, cache = OffloadingModelConfig("model", "float16"), OffloadingCacheConfig(16, 1)
    return TieringOffloadingSpec(OffloadingConfig(groups, length, False, {"cpu_bytes_to_use": BLOCKS * length}, "example", model, cache, parallel))


class Tier:
    """A tier, and the host memory that it stores from and loads to."""

    def __init__(self, length: int, config: dict) -> None:
        self.memory = np.random.default_rng(1).integers(0, 255, (BLOCKS, length), np.uint8)
        self.tier = SecondaryTierFactory.create_secondary_tier(config, memoryview(self.memory), spec(length))

    def run(self, submit, keys: list, is_load: bool) -> None:
        job = TransferJob(next(numbers), keys, np.arange(BLOCKS, dtype=np.int32), is_load, ReqContext("request"))
        submit(job)
        while not (ended := list(self.tier.get_finished_jobs())):
            time.sleep(1e-5)
        assert ended[0].job_id == job.job_id and ended[0].success

    def look_up(self, keys: list) -> None:
        request = ReqContext(f"request {next(numbers)}")
        while LookupResult.RETRY in (told := [self.tier.lookup(key, request) for key in keys]):
            self.tier.on_schedule_end(STEP)
            time.sleep(1e-5)
        assert all(each is LookupResult.HIT for each in told)
        self.tier.on_request_finished(request)

    def turn(self) -> list[float]:
        """Store new blocks, look them up and load them; return the milliseconds of each."""
        first = next(numbers) * BLOCKS
        keys = [make_offload_key((first + number).to_bytes(32, "big"), 0) for number in range(BLOCKS)]
        stored, took = self.memory.copy(), []
        works = (
            lambda: self.run(self.tier.submit_store, keys, False),
            lambda: self.look_up(keys),
            lambda: self.run(self.tier.submit_load, keys, True),
        )
        for work in works:
            begun = time.perf_counter()
            work()
            took.append((time.perf_counter() - begun) * 1e3)
            if work is works[0]:
                self.memory[:] = 0
        assert (self.memory == stored).all(), "what came back is what was stored"
        return took


def main() -> None:
    # The command line gives KiB of a block.
    lengths = [int(word) << 10 for word in sys.argv[1:]] or [64 << 10, 1 << 20]
    nodes = _node.Nodes(2, "1GiB")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as tmpfs, tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HANARE_NODE": nodes.sockets[0]}
        mount = subprocess.Popen([_node.program(), "mount", folder], env=environment)
        while not os.path.ismount(folder):
            assert mount.poll() is None, "the mount has failed"
            time.sleep(0.01)
        far = os.path.join(folder, "other")
        os.mkdir(far)
        os.setxattr(far, "user.hanare.place", b"node=1")
        ours = {"type": "HanareTier", "module_path": "hanare.vllm", "socket": nodes.sockets[0], "bytes": 256 << 20}
        tiers = {
            "files, tmpfs": {"type": "fs", "root_dir": tmpfs},
            "files, mount, this host": {"type": "fs", "root_dir": folder},
            "files, mount, other node": {"type": "fs", "root_dir": far},
            "hanare, this host": {**ours, "name": "here", "place": "local"},
            "hanare, other node": {**ours, "name": "there", "place": "node=1"},
        }
        for length in lengths:
            made = {name: Tier(length, {**config}) for name, config in tiers.items()}
            turns = {name: [] for name in made}
            for _ in range(ROUNDS):
                for name, tier in made.items():
                    turns[name].append(tier.turn())
            print(f"{BLOCKS} blocks of {length >> 10} KiB, ms")
            for name, took in turns.items():
                medians = [statistics.median(each) for each in zip(*took)]
                print(f"  {name:24} store {medians[0]:8.2f}  lookup {medians[1]:6.2f}  load {medians[2]:8.2f}")
            for tier in made.values():
                tier.tier.shutdown()
        mount.terminate()
        mount.wait()
    nodes.stop()


if __name__ == "__main__":
    main()
