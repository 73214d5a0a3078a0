"""The pool as a store of `zarr` (version 3): arrays in chunks, each chunk a region."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from ._files import Files
from ._trust import Trusted, named
from .pool import connect

__all__ = ["HanareStore"]


class HanareStore(Store):
    """See `zarr.abc.store.Store`.

    Parameters
    ----------
    path : str
        What the keys of this store have before them.
    socket : str, optional
        The node's socket, as for `hanare.connect`.
    place : str
        Where the bytes of chunks go, as for `Pool.array`.
    read_only : bool
        Whether it refuses to write.
    trust : int, str, or several of them, optional
        Users, by number or name, whose regions are chunks too, or ``"anyone"``; else those of others are left out of listings, and to read
        one raises `NotTrusted`.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self, path: str = "", *, socket: str | None = None, place: str = "local", read_only: bool = False, trust: Trusted = None
    ) -> None:
        super().__init__(read_only=read_only)
        self._path, self._socket, self._place = path.strip("/"), socket, place
        self._files = Files(connect(socket), place, trust)
        self._trust = named(self._files.pool)

    def with_read_only(self, read_only: bool = False) -> HanareStore:
        """Return the same store, for reading or for writing too."""
        return HanareStore(self._path, socket=self._socket, place=self._place, read_only=read_only, trust=self._trust)

    def _of(self, key: str) -> str:
        assert isinstance(key, str)
        return f"{self._path}/{key}" if self._path else key

    def _keys(self, prefix: str) -> list[str]:
        begin = f"{self._path}/" if self._path else ""
        return [path[len(begin) :] for path, _ in self._files.paths(begin + prefix)]

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return a value, or a part of it; ``None`` where there is none."""
        await self._ensure_open()
        match byte_range:
            case None:
                part: tuple[int, int | None] = (0, None)
            case RangeByteRequest(start=start, end=end):
                part = (start, end)
            case OffsetByteRequest(offset=offset):
                part = (offset, None)
            case SuffixByteRequest(suffix=suffix):
                part = (-suffix, None)
            case _:
                raise TypeError(f"Unexpected byte_range, got {byte_range!r}.")
        try:
            found = await asyncio.to_thread(self._files.get, self._of(key), *part)
        except FileNotFoundError:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of several values."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether there is such a key."""
        return await asyncio.to_thread(self._files.length, self._of(key)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Write a value."""
        self._check_writable()
        await self._ensure_open()
        if not isinstance(value, Buffer):
            raise TypeError(f"HanareStore.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead.")
        await asyncio.to_thread(self._files.put, self._of(key), value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value where there is none."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a value, if there is one."""
        self._check_writable()
        await asyncio.to_thread(self._files.delete, self._of(key))

    async def clear(self) -> None:
        """Remove all values of this store."""
        self._check_writable()
        for key in self._keys(""):
            self._files.delete(self._of(key))

    async def list(self) -> AsyncIterator[str]:
        """Go through all keys."""
        for key in self._keys(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Go through the keys that begin so."""
        for key in self._keys(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Go through what is right below a prefix."""
        begin = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        for name in {key[len(begin) :].partition("/")[0] for key in self._keys(begin)}:
            yield name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HanareStore):
            return NotImplemented
        return (self._path, self._socket, self.read_only) == (other._path, other._socket, other.read_only)

    def __reduce__(self) -> Any:
        return _store, (self._path, self._socket, self._place, self.read_only, self._trust)

    def __str__(self) -> str:
        return f"hanare://{self._path}"

    def __repr__(self) -> str:
        return f"HanareStore('{self}')"


def _store(path: str, socket: str | None, place: str, read_only: bool, trust: tuple[int | str, ...]) -> HanareStore:
    return HanareStore(path, socket=socket, place=place, read_only=read_only, trust=trust)
