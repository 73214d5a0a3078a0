"""The file system passes fsspec's own tests, and programs that know fsspec read and write the pool."""

from __future__ import annotations

from typing import Any, Iterator

import fsspec
import fsspec.tests.abstract as theirs
import numpy as np
import pytest

import hanare
from hanare.fs import HanareFileSystem


class Fixtures(theirs.AbstractFixtures):
    @pytest.fixture
    def fs(self, pool: hanare.Pool) -> HanareFileSystem:
        return HanareFileSystem(skip_instance_cache=True)

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self, fs: HanareFileSystem) -> Iterator[str]:
        yield "folder"
        if fs.exists("folder"):
            fs.rm("folder", recursive=True)


class TestCopy(theirs.AbstractCopyTests, Fixtures):
    pass


class TestGet(theirs.AbstractGetTests, Fixtures):
    pass


class TestPut(theirs.AbstractPutTests, Fixtures):
    pass


class TestPipe(theirs.AbstractPipeTests, Fixtures):
    pass


class TestOpen(theirs.AbstractOpenTests, Fixtures):
    pass


def test_urls_name_regions(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    with fsspec.open(f"hanare://{name}/notes.txt", "wt") as file:
        file.write("one\ntwo\n")
    with fsspec.open(f"hanare://{name}/notes.txt", "at") as file:
        file.write("three\n")
    with fsspec.open(f"hanare://{name}/notes.txt", "rt") as file:
        assert file.readlines() == ["one\n", "two\n", "three\n"]
    assert beside.region(f"{name}%2Fnotes.txt").get(4, 3) == b"two"
    fs = fsspec.filesystem("hanare")
    assert fs.ls(name, detail=False) == [f"{name}/notes.txt"] and fs.isdir(name) and fs.size(f"{name}/notes.txt") == 14
    assert fs.cat_file(f"{name}/notes.txt", start=-6) == b"three\n"
    with pytest.raises(FileNotFoundError):
        fs.open(f"{name}/none", "rb")
    fs.rm(name, recursive=True)
    assert not fs.exists(name)


def test_arrays_are_files_of_their_bytes(pool: hanare.Pool, name: str) -> None:
    made = pool.from_numpy(np.arange(10, dtype="i4"), name=name, place="node=1")
    assert fsspec.filesystem("hanare").cat_file(name) == np.arange(10, dtype="i4").tobytes()
    made.remove()


def test_an_empty_file_and_strange_names(pool: hanare.Pool) -> None:
    fs = fsspec.filesystem("hanare")
    for path in ("strange/a b%2F.txt", "strange/100%", "strange/離れ"):
        fs.pipe_file(path, b"")
        assert fs.info(path) == {"name": path, "size": 0, "type": "file"} and fs.cat_file(path) == b""
    assert len(fs.ls("strange")) == 3
    fs.rm("strange", recursive=True)
