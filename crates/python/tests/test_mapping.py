"""Arrays of other hosts as `numpy.ndarray`, and NumPy's memory where other libraries take it."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

import hanare
from hanare import errors


@pytest.mark.parametrize("consistency", ["coherent", "explicit"])
def test_another_hosts_array_is_mapped(pool: hanare.Pool, beside: hanare.Pool, name: str, consistency: str) -> None:
    far = pool.zeros((64, 512), name=name, place="node=1")
    far[3] = 5
    mapped = far.map(consistency)
    assert isinstance(mapped, np.ndarray) and mapped.shape == (64, 512) and mapped[3].sum() == 5 * 512
    there = beside.open(name, mapped=False).map(consistency)
    mapped[4, 1] = 7
    mapped.flush()
    there.update()
    assert there[4, 1] == 7
    half = far[::2].map(consistency)
    assert half[2, 1] == 7
    del mapped, there, half
    far.remove()


def test_ways_to_map_do_not_mix(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    near = pool.zeros(512, name=name)
    with pytest.raises(errors.BadUse, match=name):
        beside.open(name).map("coherent")
    with pytest.raises(ValueError):
        beside.open(name).map("loosely")
    assert near.map() is near
    near.remove()


def test_other_libraries_take_the_memory_without_a_copy(pool: hanare.Pool, name: str) -> None:
    near = pool.from_numpy(np.arange(6.0).reshape(2, 3), name=name)
    shared = np.from_dlpack(near)
    shared[0, 0] = 9
    assert near[0, 0] == 9 and memoryview(near).nbytes == 48
    near.remove()
    assert shared[1, 2] == 5, "what was taken holds the memory"


def test_system_calls_read_into_it(pool: hanare.Pool, name: str) -> None:
    near = pool.zeros(mmap.PAGESIZE, "u1", name=name)
    with open("/proc/self/stat", "rb", buffering=0) as file:
        count = file.readinto(near.data)
    assert count and bytes(near[:count]).split()[0].isdigit()
    near.remove()
