"""The wheel goes into a fresh environment, with nothing but NumPy, and has the command and the node in it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def wheel(repository: Path) -> Path:
    found = list((repository / "target/python/wheels").glob("hanare-*.whl"))
    assert len(found) == 1, "scripts/python.sh builds it"
    return found[0]


def test_a_fresh_environment_needs_the_wheel_and_numpy(wheel: Path, tmp_path: Path) -> None:
    venv.EnvBuilder(with_pip=False).create(tmp_path / "fresh")
    python = tmp_path / "fresh/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, str(wheel), f"numpy=={np.__version__}"], check=True)
    program = """
import hanare
pool = hanare.connect(memory="64MiB")
print(pool.full((3, 4), 2.0, name="a").sum(), hanare.__version__)
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("HANARE_", "PYTHON"))}
    environment = {**plain, "PATH": "/usr/bin:/bin", "HANARE_NODE": str(tmp_path / "none.sock")}
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("24.0 "), done.stderr
    command = subprocess.run([tmp_path / "fresh/bin/hanare", "--version"], capture_output=True, text=True, env=environment)
    assert command.stdout.split()[1] == done.stdout.split()[1]


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entries = next(name for name in names if name.endswith("entry_points.txt"))
        assert "hanare = hanare.fs:HanareFileSystem" in archive.read(entries).decode().replace("=", " = ").replace("  ", " ")
    assert {"hanare/py.typed", "hanare/_hanare.pyi", "hanare/_hanare.abi3.so"} <= names
    assert not any("test" in name for name in names)
