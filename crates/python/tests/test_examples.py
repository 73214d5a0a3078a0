"""The programs of `examples/python` do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hanare import _node

OUTPUTS = {
    "larger.py": ["96 MiB, of which a node lends 64 MiB", "sum 39169802895360.0", "row of the greatest 95", "column [  5.  50. 450.]"],
    "monte_carlo.py": ["walks 16000", "odd ends 0", "mean distance"],
    "dask_spill.py": ["spilled 1", "of 20 parts of 2 MiB", "sum 49807360.0"],
    "kmeans.py": ["turns", "centres [0.0, 5.0, 10.0] of 100000 points"],
    "dataset.py": ["samples 1000 in "],
    "kv_tiers.py": ["32 blocks of 64 KiB", "files, mount, other node", "hanare, other node"],
}


def run(words: list[str], repository: Path) -> str:
    environment = {**os.environ, "HANARE_NODE": "/nonexistent/node.sock", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=110, cwd=repository / "examples/python")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("program", OUTPUTS)
def test_a_program_says_what_it_found(program: str, repository: Path) -> None:
    if program == "dask_spill.py":
        pytest.importorskip("distributed")
    if program == "kv_tiers.py":
        pytest.importorskip("vllm", reason="vllm is not installed: pip install vllm==0.33.0")
        if not os.access("/dev/fuse", os.W_OK) or os.geteuid() != 0:
            pytest.skip("a mount without fusermount3 needs root and /dev/fuse")
    told = run([sys.executable, program], repository)
    for wanted in OUTPUTS[program]:
        assert wanted in told, told


def test_a_producer_and_a_consumer_run_on_two_nodes(repository: Path) -> None:
    told = run([_node.program(), "run", "--nodes", "2", "--memory", "64MiB", "--", sys.executable, "producer.py"], repository)
    assert f"batches 20 sum {sum(range(20)) * 4096.0}" in told


def test_every_program_is_listed(repository: Path) -> None:
    programs = {path.name for path in (repository / "examples/python").glob("*.py")}
    assert programs == {*OUTPUTS, "producer.py"}
    page = (repository / "examples/README.md").read_text()
    assert all(f"`python/{program}`" in page for program in programs)
