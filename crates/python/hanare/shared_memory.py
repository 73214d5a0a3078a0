"""`multiprocessing.shared_memory` in the pool: the same classes, whose names are known on all hosts.

A block that is made with ``across_hosts=True`` is seen by programs on every host, page by page, as threads of one see theirs; others
by all programs of the host on which they were made.
"""

from __future__ import annotations

import functools
import secrets
import types
from multiprocessing import shared_memory as _theirs
from typing import Any

from ._trust import Trusted, named, trusting
from .errors import NameTaken, UnknownRegion
from .pool import Pool

__all__ = ["ShareableList", "SharedMemory"]

#: The attribute by which a block says that programs on all hosts map it.
_ACROSS = "across_hosts"
#: What drawn names begin with.
_SHM_NAME_PREFIX = "shm_"


def _make_filename() -> str:
    return f"{_SHM_NAME_PREFIX}{secrets.token_hex(4)}"


class SharedMemory:
    """A block of shared memory, as `multiprocessing.shared_memory.SharedMemory`.

    Nothing watches over it: it stays until it is unlinked, or until the pool ends.

    Parameters
    ----------
    name : str, optional
        Its name; by default one is drawn.
    create : bool
        Whether it is made, else opened.
    size : int
        Bytes that it has at least, where it is made.
    track : bool
        Without effect: the pool keeps it, no process of this one.
    across_hosts : bool
        Whether programs on all hosts may have it at a time. A child made by fork opens it anew then.
    pool : Pool, optional
        The pool; by default that of `connect`.
    trust : int, str, or several of them, optional
        Users, by number or name, whose memory is opened too, or ``"anyone"``.

    Raises
    ------
    NotTrusted
        Another user made it; a `PermissionError`.
    FileExistsError, FileNotFoundError
        As the standard library's.
    ValueError
        A size that is not above zero.
    BadUse
        It was not made for programs on all hosts, and its bytes are on another.
    """

    def __init__(
        self,
        name: str | None = None,
        create: bool = False,
        size: int = 0,
        *,
        track: bool = True,
        across_hosts: bool = False,
        pool: Pool | None = None,
        trust: Trusted = None,
    ) -> None:
        if size < 0:
            raise ValueError("'size' must be a positive integer")
        if create and size == 0:
            raise ValueError("'size' must be a positive number different from zero")
        if name is None and not create:
            raise ValueError("'name' can only be None if create=True")
        self._pool = trusting(pool, trust)
        self._name = name if name is not None else _make_filename()
        attributes = {_ACROSS: b"True"} if across_hosts else {}
        while create:
            try:
                native = self._pool._native.create(self._name, size, "local", 0o600, False, attributes)
                break
            except NameTaken:
                if name is not None:
                    raise
                self._name = _make_filename()
        else:
            try:
                native = self._pool._native.open_trusted(self._name)
            except UnknownRegion as missing:
                raise FileNotFoundError(f"there is no shared memory '{self._name}'") from missing
        self._size = native.len
        is_across = native.attributes().get(_ACROSS) == b"True"
        view = native.map("coherent") if is_across else native.map_local()
        self._buf: memoryview | None = memoryview(view)

    @property
    def buf(self) -> memoryview:
        """The bytes; none once it is closed."""
        return self._buf  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self._size

    def close(self) -> None:
        """Leave the bytes to others. They stay mapped as long as arrays or parts of `buf` reach them."""
        # NumPy keeps the object, and no buffer of it: were it released here, its arrays would be without memory.
        self._buf = None

    def unlink(self) -> None:
        """Remove it; programs that have it keep the bytes. **Errors**: `FileNotFoundError` where that was done."""
        try:
            self._pool.remove(self._name)
        except UnknownRegion as missing:
            raise FileNotFoundError(f"there is no shared memory '{self._name}'") from missing

    def __reduce__(self) -> Any:
        return functools.partial(type(self), trust=named(self._pool)), (self._name, False, self._size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, size={self._size})"


def _on_ours(function: Any) -> Any:
    """The same function of the standard library, with our class in place of its own."""
    names = {**function.__globals__, "SharedMemory": SharedMemory}
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class ShareableList(_theirs.ShareableList[Any]):
    """A list of numbers, texts and bytes in a `SharedMemory`, as `multiprocessing.shared_memory.ShareableList`."""

    __init__ = _on_ours(_theirs.ShareableList.__init__)


