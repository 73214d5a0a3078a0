"""Regions as files: what the file systems and stores of other libraries stand on.

A file is a region. Its name is the path with ``%`` and ``/`` written as ``%25`` and ``%2F``; its length is the region's, or what its
attribute ``length`` says: a file may be empty, a region not. A file is replaced by another region that takes its name, so a reader
sees the old bytes or the new ones, never some of both.

Regions of other users are no files, unless those users are trusted: they do not stand in listings, and to read one is refused. A region whose
name is no path (with an empty part, ``.`` or ``..``), or whose attribute makes no sense, is none either.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Iterator

from ._trust import Trusted, trusting
from .errors import BadAttributes, NameTaken, UnknownRegion
from .pool import Pool

#: The attribute with the length of a file that has fewer bytes than its region.
_LENGTH = "length"


def is_path(path: str) -> bool:
    """Whether it stays below the root wherever it is copied to: no part is empty, ``.`` or ``..``."""
    return not {"", ".", ".."} & set(path.split("/"))


def to_name(path: str) -> str:
    """Return the region's name of a path, or of the beginning of one."""
    return path.replace("%", "%25").replace("/", "%2F")


def to_path(name: str) -> str | None:
    """Return the path of a region's name, or ``None`` for a name that is no path's."""
    path = name.replace("%2F", "/").replace("%25", "%")
    return path if to_name(path) == name and is_path(path) else None


class Files:
    """The files of a pool.

    Parameters
    ----------
    pool : Pool
        The pool.
    place : str
        Where the bytes of new files go, as for `Pool.array`.
    trust : int, str, or several of them, optional
        Users whose regions are files, too, or ``"anyone"``.
    """

    def __init__(self, pool: Pool, place: str = "local", trust: Trusted = None) -> None:
        self.pool, self.place = trusting(pool, trust), place

    def put(self, path: str, data: Any) -> None:
        """Write a whole file. **Cost**: a region made, one removed, and the bytes. **Errors**: `ValueError` for what is no path."""
        if not is_path(path):
            raise ValueError(f"'{path}' is no path of a file: a part of it is empty, '.' or '..'")
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
        NotTrusted
            Another user made it, so that its bytes are that user's word.
        BadAttributes
            Its attribute says no length.
        """
        try:
            native = self.pool._native.open(to_name(path), "r")
        except UnknownRegion as missing:
            raise FileNotFoundError(path) from missing
        self.pool._native.check_owner(native.name, native.owner)
        length = _length(native.attributes().get(_LENGTH), native.len)
        if length is None:
            raise BadAttributes(f"region '{native.name}' says of itself what is no length of a file")
        begin, end, _ = slice(start, stop).indices(length)
        return native.get_bytes(begin, end - begin) if begin < end else b""

    def length(self, path: str) -> int | None:
        """Return the length of a file in bytes, or ``None`` where there is none. **Errors**: `NotTrusted`."""
        try:
            told = json.loads(self.pool._native.stat(to_name(path)))
        except UnknownRegion:
            return None
        self.pool._native.check_owner(told["name"], told["owner"])
        return _length_told(told)

    def delete(self, path: str) -> bool:
        """Remove a file; return whether there was one."""
        try:
            self.pool.remove(to_name(path))
        except UnknownRegion:
            return False
        return True

    def paths(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Go through all files of users that are trusted whose paths begin so: path and length."""
        start, native = to_name(prefix), self.pool._native
        for told in json.loads(native.list()):
            name = told["name"]
            if not name.startswith(start) or name.endswith(".new") or not native.includes(told["owner"]):
                continue
            path, length = to_path(name), _length_told(told)
            if path is not None and length is not None:
                yield path, length


def _length(written: bytes | None, region_len: int) -> int | None:
    """Bytes of a file, of which the attribute and its region's length are known; ``None`` where the attribute says none."""
    if written is None:
        return region_len
    length = int(written) if len(written) <= 20 and written.isdigit() else region_len + 1
    return length if length <= region_len else None


def _length_told(told: dict[str, Any]) -> int | None:
    written = told.get("attributes", {}).get(_LENGTH)
    return _length(None if written is None else bytes(written), told["len"])
