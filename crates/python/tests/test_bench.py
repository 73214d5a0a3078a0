"""The bench runs through as one of the command's, and its rows say what the contract asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hanare import _node


@pytest.mark.timeout(400)
def test_the_bench_runs_quickly() -> None:
    words = [_node.program(), "bench", "python", "--quick", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=390, env={**os.environ, "HANARE_PYTHON": sys.executable})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["bench"] == "python" and len(told["rows"]) > 15
    for row in told["rows"]:
        assert row["value"] > 0 and row["unit"] == "us"
        # A peer that is not here is named, with the reason.
        assert "peer" not in row or "(missing: " in row["peer"] or {"peer_value", "ratio", "goal", "met"} <= set(row)
    peers = {row["peer"].split(" (missing: ")[0] for row in told["rows"] if "peer" in row}
    assert peers >= {"mpi4py RMA", "Dragon DDict, of one host", "Mooncake Store", "lmdb", "Ray put and get", "Dask array on a worker"}
    assert any("a[::16].sum()" in row["case"] for row in told["rows"])
    assert any("8 processes" in row["case"] and row["peer"] == "Manager().dict()" for row in told["rows"])


def test_an_interpreter_without_the_package_is_told_of() -> None:
    words, bare = [_node.program(), "bench", "python"], {**os.environ, "HANARE_PYTHON": "/nonexistent/python3"}
    done = subprocess.run(words, capture_output=True, text=True, env=bare)
    assert done.returncode != 0 and "/nonexistent/python3" in done.stderr and "pip install" in done.stderr
