"""A plug-in of pytest, ``-p under_allocator``: every array of a test has its memory from the pool. For NumPy's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import hanare

class UnderAllocator:
    """Enters the context for the whole run, as NumPy's handler is a variable of the context that tests run in."""

    def __init__(self) -> None:
        self.memory = hanare.allocator(hanare.connect(memory="3GiB"))
        self.most = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        with self.memory:
            assert get_handler_name(np.ones(3)) == "hanare"
            try:
                return (yield)
            finally:
                self.most = max(self.most, self.memory.taken)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(f"hanare: blocks of up to {self.most >> 10} KiB were the node's")


def pytest_configure(config: Any) -> None:
    """Called by pytest."""
    config.pluginmanager.register(UnderAllocator())
