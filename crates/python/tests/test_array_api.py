"""The suite of the Python array API, on arrays of another node: what NumPy passes, `hanare.Array` passes.

The suite is on no package index: ``HANARE_ARRAY_API_TESTS`` names a checkout of it with its submodule, whose packages are installed
(``pip install ndindex pytest-json-report``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hanare

SUITE = os.environ.get("HANARE_ARRAY_API_TESTS")


@pytest.mark.skipif(SUITE is None, reason="HANARE_ARRAY_API_TESTS names no checkout of array-api-tests")
@pytest.mark.timeout(1200)
def test_the_suite_finds_what_it_finds_in_numpy() -> None:
    here = Path(__file__).parent / "array_api"
    environment = {**os.environ, "PYTHONPATH": str(here), "ARRAY_API_TESTS_MODULE": "hanare_xp"}
    environment.pop("HANARE_NODE", None)
    words = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    words += ["--max-examples", "2", "--hypothesis-disable-deadline", "--disable-warnings", "--xfails-file", str(here / "failures.txt")]
    done = subprocess.run(words, cwd=SUITE, env=environment, capture_output=True, text=True, timeout=1190)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 1300


def test_an_array_is_one_of_the_standard(pool: hanare.Pool, name: str) -> None:
    far = pool.from_numpy(np.arange(24.0).reshape(2, 3, 4), name=name, place="node=1")
    namespace = far.__array_namespace__(api_version="2024.12")
    assert namespace is np and far.device == "cpu" and far.to_device("cpu") is far
    np.testing.assert_array_equal(far.mT.get(), np.arange(24.0).reshape(2, 3, 4).mT)
    np.testing.assert_array_equal(np.from_dlpack(far[1]), far[1].get())
    with pytest.raises(BufferError):
        np.from_dlpack(far, copy=False)
    with pytest.raises(ValueError):
        far.to_device("gpu")
    with pytest.raises(ValueError):
        far[0, 0].mT
    far.remove()
