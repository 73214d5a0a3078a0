"""The wheel goes into a fresh environment, with nothing but NumPy, and has the command and the node in it."""

from __future__ import annotations

import os
import re
import struct
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


def test_the_wheel_runs_where_its_tag_says(wheel: Path) -> None:
    """Its programs ask for no newer C library than the tag names, and for no library that the tag does not allow."""
    tagged = re.search(r"-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    assert tagged is not None, wheel.name
    newest = int(tagged[1]), int(tagged[2])
    # SOURCE: PEP 600 and the policies of auditwheel.
    allowed = {b"libc.so.6", b"libm.so.6", b"libdl.so.2", b"libpthread.so.0", b"librt.so.1", b"libgcc_s.so.1", b"libutil.so.1"}
    allowed |= {b"ld-linux-x86-64.so.2", b"ld-linux-aarch64.so.1"}
    with zipfile.ZipFile(wheel) as archive:
        programs = [name for name in archive.namelist() if archive.read(name)[:4] == b"\x7fELF"]
        assert sorted(Path(name).name for name in programs) == ["_hanare.abi3.so", "hanare", "hanare-models"]
        for name in programs:
            code = archive.read(name)
            asked = [(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", code)]
            assert asked and max(asked) <= newest, f"{name} asks for {max(asked)}"
            assert needed(code) <= allowed, name


def needed(code: bytes) -> set[bytes]:
    """Names of the libraries that a program of 64 bits has the loader bring."""
    begin, count = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<H", code, 56)[0]
    heads = [struct.unpack_from("<IIQQQQ", code, begin + 56 * number) for number in range(count)]
    loads = [(head[3], head[2], head[5]) for head in heads if head[0] == 1]
    dynamic = next((head[2], head[5]) for head in heads if head[0] == 2)
    entries = [struct.unpack_from("<QQ", code, at) for at in range(dynamic[0], sum(dynamic), 16)]
    address = next(value for tag, value in entries if tag == 5)
    names = next(offset + address - start for start, offset, length in loads if start <= address < start + length)
    return {code[names + value : code.index(b"\0", names + value)] for tag, value in entries if tag == 1}
