"""The pool as a file system of `fsspec`: ``hanare://path``. pandas, pyarrow, xarray, Dask and others read and write it.

Every region is a file; directories are what paths have in common, and need not be made.
"""

from __future__ import annotations

from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from ._files import Files
from ._trust import Trusted
from .pool import connect

__all__ = ["HanareFileSystem"]


class HanareFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """See `fsspec.spec.AbstractFileSystem`.

    Parameters
    ----------
    socket : str, optional
        The node's socket, as for `hanare.connect`.
    place : str
        Where the bytes of new files go, as for `Pool.array`.
    trust : int, str, or list of them, optional
        Users, by number or name, whose regions are files too, or ``"anyone"``. By default regions of others do not stand in listings, and to
        read one raises `NotTrusted`: whoever names a region first could plant a file.
    """

    protocol = "hanare"
    root_marker = ""
    #: Listings are what is there now.
    use_listings_cache = False

    def __init__(self, socket: str | None = None, place: str = "local", trust: Trusted = None, **options: Any) -> None:
        super().__init__(**{**options, "use_listings_cache": False})
        self._files = Files(connect(socket), place, trust)
        #: Directories that were made and have no file yet; this program's alone.
        self._made: set[str] = set()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        stripped = super()._strip_protocol(path)
        return stripped.strip("/")

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        """List a directory, or a file."""
        path = self._strip_protocol(path)
        found: dict[str, dict[str, Any]] = {}
        begin = f"{path}/" if path else ""
        for each, size in self._files.paths(path):
            if each == path:
                found[each] = {"name": each, "size": size, "type": "file"}
            elif each.startswith(begin):
                self._enter(found, begin, each, size)
        for each in self._made:
            if each.startswith(begin) and each != path:
                self._enter(found, begin, each + "/", 0)
        if not found and path and path not in self._made:
            raise FileNotFoundError(path)
        rows = [found[each] for each in sorted(found)]
        return rows if detail else [row["name"] for row in rows]

    @staticmethod
    def _enter(found: dict[str, dict[str, Any]], begin: str, path: str, size: int) -> None:
        first, parted, _ = path[len(begin) :].partition("/")
        name = begin + first
        row = {"name": name, "size": 0, "type": "directory"} if parted else {"name": name, "size": size, "type": "file"}
        if first:
            found.setdefault(name, row)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Describe a file or directory."""
        path = self._strip_protocol(path)
        size = self._files.length(path) if path else None
        if size is not None:
            return {"name": path, "size": size, "type": "file"}
        begin = f"{path}/" if path else ""
        is_made = not path or path in self._made or any(each.startswith(begin) for each in self._made)
        if is_made or next(self._files.paths(begin), None) is not None:
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Note a directory: it is there without, once a file is in it."""
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(path)
        self._made.add(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """As `mkdir`, with those above it."""
        try:
            self.mkdir(path)
        except FileExistsError:
            if not exist_ok:
                raise

    def rmdir(self, path: str) -> None:
        """Forget a directory. **Errors**: `FileNotFoundError`; `OSError` where files are in it."""
        path = self._strip_protocol(path)
        if self.ls(path):
            raise OSError(f"directory '{path}' has files")
        self._made.discard(path)

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self._files.delete(path) and path not in self._made and self.isdir(path):
            return
        self._made.discard(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files; with `recursive` all below directories."""
        for each in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            self._rm(each)

    def cp_file(self, source: str, target: str, **options: Any) -> None:
        """Copy a file, or note a directory."""
        source, target = self._strip_protocol(source), self._strip_protocol(target)
        if self._files.length(source) is None:
            self.info(source)
            return self._made.add(target)
        self._files.put(target, self._files.get(source))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return a file's bytes, or a part of them."""
        return self._files.get(self._strip_protocol(path), start or 0, end)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        """Write a whole file."""
        path = self._strip_protocol(path)
        if mode == "create" and self._files.length(path) is not None:
            raise FileExistsError(path)
        self._files.put(path, value)

    def created(self, path: str) -> Any:
        """Regions do not tell when they were made."""
        raise NotImplementedError("regions do not tell when they were made")

    modified = created

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        if mode == "rb" and self._files.length(path) is None:
            raise FileNotFoundError(path)
        if mode == "xb" and self._files.length(path) is not None:
            raise FileExistsError(path)
        before = self._files.get(path) if mode == "ab" and self._files.length(path) is not None else b""
        return _File(self, path, mode, before, **options)


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read by ranges; written, it is kept here and put into the pool when it is closed."""

    def __init__(self, fs: HanareFileSystem, path: str, mode: str, before: bytes, **options: Any) -> None:
        super().__init__(fs, path, mode, **options)
        if mode != "rb":
            # Parts go nowhere before it is closed: a region's length is known when it is made.
            self.blocksize = 1 << 62
            self.buffer.write(before)
            self.loc = self.offset_before = len(before)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs._files.get(self.path, start, end)

    def _initiate_upload(self) -> None:
        pass

    def _upload_chunk(self, final: bool = False) -> bool:
        if final:
            self._whole = self.buffer.getvalue()
            if self.autocommit:
                self.commit()
        return final

    def commit(self) -> None:
        """Put it into the pool."""
        self.fs._files.put(self.path, self._whole)

    def discard(self) -> None:
        """Let it go."""
        self._whole = b""
