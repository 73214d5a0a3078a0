"""`hanare.shared_memory` is what `multiprocessing.shared_memory` is: CPython's own tests of that, and what they do not ask."""

from __future__ import annotations

import multiprocessing
import multiprocessing.shared_memory
import sys
import unittest
from typing import Any

import numpy as np
import pytest

import hanare
from hanare import errors, shared_memory

try:
    from test import _test_multiprocessing as theirs
except ImportError:
    theirs = None  # type: ignore[assignment]

#: Tests of how the standard library makes its files and its tracker, which are not here.
_OTHER = {
    "test_shared_memory_name_with_embedded_null": "a null in a name is BadName",
    "test_invalid_shared_memory_creation": "asks os.ftruncate",
    "test_shared_memory_pickle_unpickle_dead_object": "looks at private fields",
    "test_shared_memory_across_processes": "runs below",
    "test_shared_memory_cleaned_after_process_termination": "asks the resource tracker",
    "test_shared_memory_untracking": "asks the resource tracker",
    "test_shared_memory_tracking": "asks the resource tracker",
    "test_leaked_shared_memory": "asks the resource tracker",
    "test_shared_memory_SharedMemoryServer_ignores_sigint": "asks the standard library's server",
    "test_shared_memory_SharedMemoryManager_reuses_resource_tracker": "asks the standard library's server",
    "test_shared_memory_SharedMemoryManager_basics": "asks the standard library's server",
}


@pytest.mark.skipif(theirs is None, reason="this Python came without its own tests (Debian: libpython3-testsuite)")
def test_cpythons_own_tests_pass(pool: hanare.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theirs, "shared_memory", shared_memory)
    monkeypatch.setattr(shared_memory, "_USE_POSIX", True, raising=False)
    monkeypatch.setattr(multiprocessing, "shared_memory", shared_memory)
    monkeypatch.setitem(sys.modules, "multiprocessing.shared_memory", shared_memory)
    cases = type("TestOurs", (theirs._TestSharedMemory, theirs.BaseTestCase, unittest.TestCase), {"TYPE": "processes"})
    for part in ("Process", "Event", "Queue"):
        setattr(cases, part, getattr(multiprocessing, part))
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(cases)
    chosen = unittest.TestSuite(test for test in suite if test.id().rsplit(".", 1)[1] not in _OTHER)  # type: ignore[union-attr]
    result = unittest.TestResult()
    chosen.run(result)
    assert not result.errors and not result.failures, "\n".join(text for _, text in result.errors + result.failures)
    assert result.testsRun >= 7


def set_byte(name: str, at: int) -> None:
    block = shared_memory.SharedMemory(name)
    block.buf[at] = at
    block.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_a_block(pool: hanare.Pool, method: str) -> None:
    block = shared_memory.SharedMemory(create=True, size=100)
    process = multiprocessing.get_context(method).Process(target=set_byte, args=(block.name, 7))
    process.start()
    process.join()
    assert block.buf[7] == 7 and block.size == 100 and process.exitcode == 0
    array = np.ndarray((10,), "u1", block.buf)
    block.close()
    block.unlink()
    assert block.buf is None and array[7] == 7, "an array holds its memory"
    with pytest.raises(FileNotFoundError):
        shared_memory.SharedMemory(block.name)


def test_a_block_for_all_hosts(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    here = shared_memory.SharedMemory(name, create=True, size=8192, across_hosts=True, pool=pool)
    there = shared_memory.SharedMemory(name, pool=beside)
    there.buf[5000] = 9
    assert here.buf[5000] == 9
    here.buf[1] = 3
    assert there.buf[1] == 3
    there.close(), here.close(), here.unlink()


def test_a_block_of_another_host_alone_is_refused(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    here = shared_memory.SharedMemory(name, create=True, size=100, pool=pool)
    with pytest.raises(errors.BadUse, match=name):
        shared_memory.SharedMemory(name, pool=beside)
    here.close(), here.unlink()


def test_a_list_is_shared(pool: hanare.Pool, name: str) -> None:
    items: Any = [1, "two", 3.5, None, b"five", True]
    made = shared_memory.ShareableList(items, name=name)
    again = shared_memory.ShareableList(name=name)
    again[1] = "TWO"
    assert list(made) == [1, "TWO", 3.5, None, b"five", True] and isinstance(made.shm, shared_memory.SharedMemory)
    again.shm.close(), made.shm.close(), made.shm.unlink()
