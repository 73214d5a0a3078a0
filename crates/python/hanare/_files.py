"""Regions as files: what the file systems and stores of other libraries stand on.

A file is a region. Its name is the path with ``%`` and ``/`` written as ``%25`` and ``%2F``; its length is the region's, or what its
attribute ``length`` says: a file may be empty, a region not. A file is replaced by another region that takes its name, so a reader
sees the old bytes or the new ones, never some of both.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Iterator

from .errors import NameTaken, UnknownRegion
from .pool import Pool

#: The attribute with the length of a file that has fewer bytes than its region.
_LENGTH = "length"


def to_name(path: str) -> str:
    """Return the region's name of a path."""
    return path.replace("%", "%25").replace("/", "%2F")


def to_path(name: str) -> str:
    """Return the path of a region's name."""
    return name.replace("%2F", "/").replace("%25", "%")


class Files:
    """The files of a pool.

    Parameters
    ----------
    pool : Pool
        The pool.
    place : str
        Where the bytes of new files go, as for `Pool.array`.
    """

    def __init__(self, pool: Pool, place: str = "local") -> None:
        self.pool, self.place = pool, place

    def put(self, path: str, data: Any) -> None:
        """Write a whole file. **Cost**: a region made, one removed, and the bytes."""
        view = memoryview(data).cast("B")
        attributes = {} if view.nbytes else {_LENGTH: b"0"}
        name = to_name(path)
        fresh = f"{name[:200]}.{secrets.token_hex(8)}.new"
        native = self.pool._native.create(fresh, max(view.nbytes, 1), self.place, 0o600, False, attributes)
        try:
            if view.nbytes:
                native.put((0, view.nbytes, []), view)
            while True:
                self.delete(path)
                try:
                    return self.pool._native.alter(fresh, name, {})
                except NameTaken:
                    # Another writer was faster: this file is the later one.
                    continue
        except BaseException:
            self.pool.remove(fresh)
            raise

    def get(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return bytes of a file from `start` to `stop`, which count from the end where they are negative.

        Raises
        ------
        FileNotFoundError
        """
        try:
            native = self.pool._native.open(to_name(path), "r")
        except UnknownRegion as missing:
            raise FileNotFoundError(path) from missing
        length = int(native.attributes().get(_LENGTH, native.len))
        begin, end, _ = slice(start, stop).indices(length)
        return native.get_bytes(begin, end - begin) if begin < end else b""

    def length(self, path: str) -> int | None:
        """Return the length of a file in bytes, or ``None`` where there is none."""
        try:
            told = json.loads(self.pool._native.stat(to_name(path)))
        except UnknownRegion:
            return None
        return _length(told)

    def delete(self, path: str) -> bool:
        """Remove a file; return whether there was one."""
        try:
            self.pool.remove(to_name(path))
        except UnknownRegion:
            return False
        return True

    def paths(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Go through all files whose paths begin so: path and length."""
        start = to_name(prefix)
        for told in json.loads(self.pool._native.list()):
            if told["name"].startswith(start) and not told["name"].endswith(".new"):
                yield to_path(told["name"]), _length(told)


def _length(told: dict[str, Any]) -> int:
    written = told.get("attributes", {}).get(_LENGTH)
    return told["len"] if written is None else int(bytes(written))
