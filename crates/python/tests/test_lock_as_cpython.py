"""A lock of the pool does what CPython's own tests ask of `threading.Lock`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import hanare

lock_tests: Any = pytest.importorskip("test.lock_tests", reason="this Python was installed without its own tests")

_numbers = itertools.count()


class TestLock(lock_tests.LockTests):  # type: ignore[misc]
    """All of `test.lock_tests.LockTests`; each lock has a name of its own."""

    @pytest.fixture(autouse=True)
    def locks_of(self, pool: hanare.Pool) -> None:
        self.locktype = lambda: pool.lock(f"test.cpython.{next(_numbers)}")
