"""Checkpoints of torch.distributed.checkpoint in the pool: one program, several ranks, changed bytes, ranks that are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hanare
from hanare import checkpoint, errors

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (it is too large for this project's own environment)")
dcp = pytest.importorskip("torch.distributed.checkpoint", reason="this torch has no distributed checkpoints")
CheckpointException = dcp.api.CheckpointException


def state(number: int) -> dict[str, Any]:
    return {
        "model": {"w": torch.full((20, 30), float(number)), "b": torch.arange(number, number + 5), "half": torch.full((7,), number, dtype=torch.bfloat16)},
        "none": torch.empty(0, 3),
        "scalar": torch.tensor(number),
        "turned": torch.full((4, 6), float(number)).t(),
        "step": number,
        "words": ["a", number],
    }


def empty() -> dict[str, Any]:
    return state(-1)


def number_of(found: dict[str, Any]) -> int:
    """Return the save from which all of a state is."""
    number = int(found["step"])
    wanted = state(number)
    for key in ("w", "b", "half"):
        assert torch.equal(found["model"][key], wanted["model"][key]), key
    for key in ("none", "scalar", "turned"):
        assert torch.equal(found[key], wanted[key]), key
    assert found["words"] == wanted["words"]
    return number


def save(pool: hanare.Pool, name: str, number: int) -> None:
    dcp.save(state(number), storage_writer=checkpoint.StorageWriter(pool, name))


def loaded(pool: hanare.Pool, name: str) -> tuple[int, str]:
    found = empty()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dcp.load(found, storage_reader=checkpoint.StorageReader(pool, name))
    texts = [str(each.message) for each in told if each.category is errors.OlderCheckpointWarning]
    return number_of(found), " ".join(texts)


@pytest.fixture
def two(pool: hanare.Pool, name: str) -> Iterator[str]:
    """A checkpoint of two generations."""
    save(pool, name, 1)
    save(pool, name, 2)
    yield name
    for row in pool.ls(name).rows:
        if row[0] == name or row[0].startswith(name + "#"):
            pool.remove(row[0])


def test_a_state_comes_back_on_another_host(pool: hanare.Pool, beside: hanare.Pool, two: str) -> None:
    assert loaded(pool, two) == (2, "") and loaded(beside, two) == (2, "")
    save(beside, two, 3)
    assert loaded(pool, two) == (3, "")
    names = {row[0] for row in pool.ls(two + "#").rows}
    assert names == {f"{two}#{number}.{part}" for number in (2, 3) for part in ("0", "index")}


def test_a_part_of_a_state_is_loaded_alone(pool: hanare.Pool, two: str) -> None:
    part = {"model": {"w": torch.zeros(20, 30)}}
    dcp.load(part, storage_reader=checkpoint.StorageReader(pool, two))
    assert torch.equal(part["model"]["w"], torch.full((20, 30), 2.0))


def test_a_save_in_the_background_is_whole(pool: hanare.Pool, two: str) -> None:
    dcp.async_save(state(3), storage_writer=checkpoint.StorageWriter(pool, two)).result()
    assert loaded(pool, two) == (3, "")


def test_changed_bytes_give_the_older_state_and_never_a_wrong_one(pool: hanare.Pool, two: str) -> None:
    for part in ("0", "index"):
        region = pool.region(f"{two}#2.{part}")
        for offset in range(0, region.nbytes, 61):
            byte = region.get(offset, 1)[0]
            region.put(offset, bytes([byte ^ 4]))
            number, told = loaded(pool, two)
            # Between shards lie bytes that are nobody's.
            assert (number == 1 and "generation 1 is loaded in place of a newer one" in told) or (part == "0" and (number, told) == (2, ""))
            region.put(offset, bytes([byte]))
    region = pool.region(f"{two}#2.0")
    region.put(8, b"\xff" * 400)
    assert loaded(pool, two)[0] == 1
    pool.region(f"{two}#1.index").put(20, b"\xff")
    kept = empty()
    with pytest.raises(CheckpointException, match="no generation of checkpoint"):
        dcp.load(kept, storage_reader=checkpoint.StorageReader(pool, two))
    # No tensor was touched.
    assert number_of(kept) == -1


def test_arrays_and_states_are_told_apart(pool: hanare.Pool, two: str) -> None:
    with pytest.raises(errors.BadUse, match="StorageReader"):
        checkpoint.load(pool, two)
    checkpoint.save(pool, two, {"a": [1.0]})
    with pytest.raises(CheckpointException, match="hanare.checkpoint.load"):
        loaded(pool, two)


#: A program of two ranks, each with a half of a tensor: "save" saves twice, loads, changes a byte, and loads; "die" saves, and rank 1 is killed.
PROGRAM = """
import os, signal, sys, warnings
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
import hanare

work, name = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2,))
pool = hanare.connect(os.environ["SOCKETS"].split()[rank])

def whole(number):
    return torch.arange(40.0).reshape(8, 5) + number

def save(number):
    sharded = distribute_tensor(whole(number), mesh, [Shard(0)])
    dcp.save({"w": sharded, "step": number}, storage_writer=hanare.checkpoint.StorageWriter(pool, name))

def load():
    found = {"w": distribute_tensor(torch.zeros(8, 5), mesh, [Shard(1)]), "step": -1}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dcp.load(found, storage_reader=hanare.checkpoint.StorageReader(pool, name))
    assert torch.equal(found["w"].full_tensor(), whole(found["step"])), (rank, found)
    return found["step"], any(each.category is hanare.errors.OlderCheckpointWarning for each in told)

def flip():
    if rank == 0:
        region = pool.region(name + "#2.1")
        region.put(12, bytes([region.get(12, 1)[0] ^ 1]))
    dist.barrier()

def put_and_die(region, offset, data):
    put(region, offset, memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
    os.kill(os.getpid(), signal.SIGKILL)

if work == "die":
    put = hanare.Region.put
    if rank == 1:
        hanare.Region.put = put_and_die
    save(3)
save(1), save(2)
assert load() == (2, False)
flip()
assert load() == (1, True)
flip()
assert load() == (2, False)
dist.barrier()
dist.destroy_process_group()
"""


def ranks(nodes: Any, folder: Path, *words: str) -> list[subprocess.Popen[str]]:
    """Start the program on two ranks, each on a host of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = []
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment = {**os.environ, **own, "SOCKETS": " ".join(nodes.sockets), "OMP_NUM_THREADS": "1"}
        program = [sys.executable, "-c", PROGRAM, *words]
        started.append(subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True, cwd=folder))
    return started


@pytest.mark.timeout(300)
def test_ranks_agree_on_one_generation_whoever_finds_the_damage(nodes: Any, pool: hanare.Pool, name: str, tmp_path: Path) -> None:
    for program in ranks(nodes, tmp_path, "save", name):
        _, stderr = program.communicate(timeout=140)
        assert program.returncode == 0, stderr
    # A rank that dies within a put: the other one is ended, as a launcher does.
    first, second = ranks(nodes, tmp_path, "die", name)
    try:
        second.communicate(timeout=140)
        assert second.returncode == -signal.SIGKILL
    finally:
        first.kill()
        first.communicate()
    assert any(row[0].startswith(name + "#3.") for row in pool.ls(name).rows)
    found = {"w": torch.zeros(8, 5), "step": -1}
    dcp.load(found, storage_reader=checkpoint.StorageReader(pool, name))
    assert found["step"] == 2 and torch.equal(found["w"], torch.arange(40.0).reshape(8, 5) + 2)
    for row in pool.ls(name + "#").rows:
        pool.remove(row[0])
    pool.remove(name)
