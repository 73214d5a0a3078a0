"""The pool: its arrays by name, what there is, and what programs wait for."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _attachment, _hanare
from ._attachment import Attachment
from ._index import Layout
from ._local import LocalArray
from ._table import Table
from ._terms import check_dtype, from_attributes, to_attributes
from ._trust import Trusted, trusting
from .array import Array
from .errors import BadUse, Error, IsMapped, NameTaken, UnknownRegion
from .queue import Queue
from .store import Store
from .sync import Group, Lock, _await

__all__ = ["Pool", "Region", "connect"]

class Region:
    """A region as a range of bytes, for what no array says; made by `Pool.region`.

    All calls release the GIL where they wait for other hosts or move more than 64 KiB.
    """

    def __init__(self, pool: Pool, native: _hanare.Region, rights: str | None) -> None:
        self.pool, self.name, self.gid, self._rights = pool, native.name, native.gid, rights
        self._native_region, self._generation = native, _attachment.generation

    @property
    def native(self) -> _hanare.Region:
        """The handle of the extension module, made anew in a child made by fork."""
        if self._generation != _attachment.generation:
            fresh = self.pool._native.open(self.name, self._rights)
            if fresh.gid != self.gid:
                raise UnknownRegion(f"region '{self.name}' was removed, and another has its name")
            # The parent's handle is left as it is: what it holds is the parent's.
            _attachment.kept.append(self._native_region)
            self._native_region, self._generation = fresh, _attachment.generation
        return self._native_region

    @property
    def owner(self) -> int:
        """The number of the user whose it was when it was opened."""
        return self._native_region.owner

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self._native_region.len

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._native_region.writable

    @property
    def is_local(self) -> bool:
        """Whether all its bytes are on this host."""
        return self._native_region.is_local

    def get(self, offset: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes from `offset` on, to the end by default.

        Raises
        ------
        OutOfRange, NodeLost, RegionLost, Timeout
        """
        length = self.nbytes - offset if length is None else length
        return self.native.get_bytes(offset, max(length, 0))

    def get_into(self, offset: int, into: Any) -> None:
        """Read as many bytes as the buffer `into` has (C-contiguous, writable), from `offset` on.

        For more than some KiB it is faster than `get`, because memory that was used before has its pages. No copy but the kernel's.

        Raises
        ------
        OutOfRange, NodeLost, RegionLost, Timeout
        BufferError
            It is read-only, or its bytes do not lie one after another.
        """
        self.native.get((offset, memoryview(into).nbytes, []), into)

    def put(self, offset: int, data: Any) -> None:
        """Write a buffer's bytes (C-contiguous) from `offset` on; returns when they are at their home."""
        self.native.put((offset, memoryview(data).nbytes, []), data)

    def compare_and_swap(self, offset: int, expected: int, new: int) -> int:
        """Swap the 64-bit word at `offset` for `new` if it is `expected`; return the word before."""
        return self.native.compare_and_swap_word(offset, expected, new)

    def add(self, offset: int, number: int) -> int:
        """Add to the 64-bit word at `offset` in one step; return the word before."""
        old = bytearray(8)
        operand = (number % (1 << 64)).to_bytes(8, "little")
        self.native.update((offset, 8, []), "u64", "add", operand, old)
        return int.from_bytes(old, "little")

    def wait_until(
        self, offset: int, until: Literal["equal", "differs", "at least", "at most", "greater", "less"], number: int, timeout: float | None = None
    ) -> int:
        """Wait until the 64-bit word at `offset` is as wanted; return the word that was seen. Ctrl-C ends the wait.

        Raises
        ------
        NotInTime
            After `timeout` seconds.
        """
        return self.native.wait_until(offset, until, number, timeout).result()

    async def wait_until_async(self, offset: int, until: Literal["equal", "differs", "at least", "at most", "greater", "less"], number: int) -> int:
        """As `wait_until`, for a task."""
        return await _await(self.native.wait_until(offset, until, number))

    def remove(self) -> None:
        """Remove it from the pool."""
        self.pool.remove(self.name)

    def _reference(self, layout: Layout, mapped: bool) -> Any:
        """What a pickle has of an array that lies so in it."""
        return _reopen, (self.name, self.gid, layout, not self.writable, mapped)

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        return f"<hanare.Region '{self.name}' of {self.nbytes} bytes>"


class Pool(Attachment):
    """An attachment to the pool; made by `connect`.

    In a child made by fork it attaches anew by itself, at its first use.
    """

    @property
    def rank(self) -> int:
        """This program's rank in its job; 0 where it was started alone."""
        return self._native.rank

    @property
    def ranks(self) -> int:
        """How many ranks the job has; 1 where it was started alone."""
        return self._native.ranks

    @property
    def node(self) -> int:
        """The number of this host's node."""
        return self._native.node

    def array(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = float,
        *,
        name: str | None = None,
        place: str = "local",
        order: Literal["C", "F"] = "C",
        mode: int = 0o600,
        copies: int | None = None,
    ) -> Any:
        """Make an array of zeros in the pool.

        Parameters
        ----------
        shape : int or tuple of int
            Elements along each axis; at least one element.
        dtype : data-type
            Any whose elements are bytes: numbers, dates, texts, records, and those of `ml_dtypes`. Objects are refused.
        name : str, optional
            Its name in the pool; by default one is drawn. The array stays until it is removed, whoever ends.
        place : str
            Where its bytes go: ``"local"``, ``"node=K"``, ``"interleave=1MiB"`` over all nodes, ``"nodes=0,2-4:1MiB"`` over those, or ``"near"``:
            they move to the host whose programs use them most, while nobody has the array mapped.
        order : {"C", "F"}
            Which axis varies fastest: the last, or the first.
        mode : int
            Who may read and write, as a file's mode bits.
        copies : int, optional
            Nodes that hold each byte, 1 to 3; else what ``hanare run --copies`` says, or 1. From 2 on no answered write is lost with one of them, and the array is an `Array`.

        Returns
        -------
        LocalArray or Array
            A `numpy.ndarray` on the pool's own memory where all bytes are on this host, else an `Array`.

        Raises
        ------
        NameTaken, BadName, BadPlacement, PoolFull, QuotaExceeded, NoCoordinator
        TypeError
            Elements that are no bytes.
        """
        kind = check_dtype(dtype)
        axes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(axis) for axis in shape)
        if any(axis <= 0 for axis in axes):
            raise ValueError(f"an array of shape {axes} has no bytes to keep in the pool")
        nbytes = kind.itemsize * int(np.prod(axes, dtype=object)) if axes else kind.itemsize
        attributes = to_attributes(kind, axes, order == "F")
        native = self._native.create(name or f"array.{secrets.token_hex(6)}", nbytes, place, mode, False, attributes, copies)
        return self._array(Region(self, native, "w"), kind, axes, order == "F")

    zeros = array

    def full(self, shape: int | tuple[int, ...], fill_value: Any, dtype: Any = None, **options: Any) -> Any:
        """Make an array of one value, by default of its type; else as `array`."""
        made = self.array(shape, np.asarray(fill_value).dtype if dtype is None else dtype, **options)
        made[...] = fill_value
        return made

    def from_numpy(self, array: ArrayLike, **options: Any) -> Any:
        """Make an array with the elements, shape and order of another; else as `Pool.array`.

        **Cost**: one copy of its bytes.
        """
        given = np.asarray(array)
        is_fortran = given.ndim > 1 and given.flags.f_contiguous and not given.flags.c_contiguous
        made = self.array(given.shape, given.dtype, **{"order": "F" if is_fortran else "C", **options})
        made[...] = given
        return made

    def open(self, name: str, *, readonly: bool = False, mapped: bool = True) -> Any:
        """Open an array by its name alone: type, shape and order are kept with it. Regions that say nothing are arrays of bytes.

        Parameters
        ----------
        name : str
            Its name.
        readonly : bool
            Open it for reading; otherwise for the most that this user may do.
        mapped : bool
            Whether it may be a `numpy.ndarray` where its bytes are on this host; otherwise it is an `Array` in any case.

        Raises
        ------
        UnknownRegion, NoPermission, RegionLost, NodeLost
        BadAttributes
            It says of itself what no array is.
        """
        region = self.region(name, readonly=readonly)
        dtype, shape, fortran_order = from_attributes(name, region.native.attributes(), region.nbytes)
        return self._array(region, dtype, shape, fortran_order, mapped)

    def _array(self, region: Region, dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool, mapped: bool = True) -> Any:
        strides, step = [0] * len(shape), dtype.itemsize
        for axis in range(len(shape)) if fortran else reversed(range(len(shape))):
            strides[axis] = step
            step *= shape[axis]
        layout = Layout(0, shape, tuple(strides), dtype)
        return self._of_layout(region, layout, mapped)

    def _of_layout(self, region: Region, layout: Layout, mapped: bool = True) -> Any:
        view = self._view(region) if mapped and region.is_local else None
        return Array(region, layout) if view is None else LocalArray._over(view, region, layout)

    def _view(self, region: Region) -> _hanare.View | None:
        """Map a region of this host, or find it mapped; ``None`` where programs share it in another way."""
        key = region.gid * 2 + region.writable
        view = self._views.get(key)
        if view is None:
            try:
                view = region.native.map_local()
            except (BadUse, IsMapped):
                return None
            self._views[key] = view
        return view

    def region(self, name: str, *, readonly: bool = False) -> Region:
        """Open a region as a range of bytes, whoever made it (`Region.owner`). **Errors**: as for `open`."""
        rights = "r" if readonly else None
        return Region(self, self._native.open(name, rights), rights)

    def create(
        self,
        name: str,
        nbytes: int,
        *,
        place: str = "local",
        mode: int = 0o600,
        exist_ok: bool = False,
        trust: Trusted = None,
        copies: int | None = None,
    ) -> Region:
        """Make a region of bytes, all zero; with `exist_ok` open one of that name and length, of this user or one in `trust`.

        With 2 or 3 `copies` as many nodes hold each byte: no answered write is lost with one of them. ``hanare run --copies`` says how many there are
        where the call does not. Such a region is mapped `explicit` alone.

        Raises
        ------
        NotTrusted
            Another user made it first; `Pool.region` opens it as bytes.
        NameTaken, BadName, BadLength, BadPlacement, PoolFull, QuotaExceeded, NoCoordinator
        """
        pool = trusting(self, trust)
        return Region(pool, pool._native.create(name, nbytes, place, mode, exist_ok, {}, copies), "w")

    def set_copies(self, name: str, copies: int) -> None:
        """Have `copies` nodes, 1 to 3, hold each byte of an array or region from now on, while programs use it.

        Further copies are made after this returns: `hanare region ls` shows how many there are. A region that hosts map, or whose queues programs
        use, or that has pointers to its memory, gets its first copy when these are gone.

        Raises
        ------
        BadPlacement, PoolFull
            The pool has too few nodes, or none of them has room.
        """
        self._native.alter(name, None, {}, copies)

    def remove(self, name: str) -> None:
        """Remove an array or region. Programs that have it as `numpy.ndarray` keep its bytes; all other use of it fails."""
        self._native.remove(name)

    def exists(self, name: str) -> bool:
        """Whether there is a region of that name."""
        try:
            self._native.stat(name)
        except UnknownRegion:
            return False
        return True

    def ls(self, prefix: str = "") -> Table:
        """List what the pool holds: name, type, shape, bytes, place and nodes of each."""
        rows = []
        for told in json.loads(self._native.list()):
            if not told["name"].startswith(prefix):
                continue
            attributes = {term: bytes(value) for term, value in told.get("attributes", {}).items()}
            try:
                dtype, shape, _ = from_attributes(told["name"], attributes, told["len"])
            except (Error, TypeError):
                dtype, shape = "?", "?"  # type: ignore[assignment]
            nodes = ",".join(str(node) for node, _ in told["nodes"])
            lost = "" if told["lost"] is None else f"node {told['lost']} is lost"
            rows.append((told["name"], str(dtype), shape, told["len"], nodes, f"{told['mode']:04o}", lost))
        return Table(("name", "dtype", "shape", "nbytes", "nodes", "mode", "lost"), rows)

    def info(self) -> Table:
        """List the pool's nodes: what each lends, and what of it is used."""
        rows = []
        for node in json.loads(self._native.status())["nodes"]:
            memory = node["memory"]
            state = "alive" if node["alive"] else "lost"
            rows.append((node["node"], node["name"], state, memory["lent"], memory["used"], memory["clients"], node["address"]))
        return Table(("node", "name", "state", "lent", "used", "clients", "address"), rows)

    def traffic(self) -> dict[str, int]:
        """Return messages and bytes that this program sent to nodes and got from them so far."""
        names = ("messages_sent", "messages_received", "bytes_sent", "bytes_received")
        return dict(zip(names, self._native.traffic()))

    def flush(self) -> None:
        """Wait until all earlier writes of this program are visible at their home."""
        self._native.flush()

    def lock(self, name: str, *, shared: bool = False) -> Lock:
        """Return a lock by name, one for the whole pool; it is not taken yet."""
        return Lock(self, name, shared)

    def permit(self, name: str, mode: int) -> None:
        """Say who may use a name of locks and groups, as a file's mode bits.

        ``r`` shares the lock; ``r`` and ``w`` together take it alone, and join the group. A name belongs to the user that used it first,
        with mode ``0o600``.

        Raises
        ------
        NoPermission
            The name is another user's.
        """
        self._native.permit(name, mode)

    def queue(
        self,
        name: str,
        *,
        block: int | None = None,
        record: int | None = None,
        depth: int = 1024,
        ports: int = 4,
        overflow: Literal["wait", "refuse", "spill"] = "wait",
        place: str = "local",
        mode: int = 0o600,
        exist_ok: bool = False,
        copies: int | None = None,
        trust: Trusted = None,
    ) -> Queue:
        """Open a queue, or make one: of blocks of `block` bytes, or of records of up to `record`.

        Parameters
        ----------
        name : str
            Its name in the pool. It stays until it is removed, whoever ends.
        block, record : int, optional
            Bytes of each unit, 16 to 4096, or of the longest, up to 1 MiB. Without either the queue is there already.
        depth : int
            Units of the greatest length for which each writer's lane has room.
        ports : int
            Writers at once.
        overflow : {"wait", "refuse", "spill"}
            What becomes of a unit for which there is no room.
        place : str
            Its node: ``"local"`` or ``"node=K"``. Best that of its reader.
        mode : int
            Who may read and write, as a file's mode bits.
        exist_ok : bool
            Whether to open one of that name that is there, whatever it is like.
        copies : int, optional
            Nodes that hold each byte, 1 to 3; else what ``hanare run --copies`` says, or 1. From 2 on no sent unit is lost with one of them, each is
            received once, and the queue does not spill.
        trust : int, str, or several of them, optional
            Users, by number or name, whose queue is used too, or ``"anyone"``. Its maker reads what is sent, and what is received is anybody's
            word who may write it.

        Raises
        ------
        UnknownRegion, NoQueue
            None is there.
        NotTrusted
            Another user made it.
        BadUse
            Copies are asked for, of a queue that spills.
        NameTaken, BadName, BadSetting, BadPlacement, PoolFull, QuotaExceeded, NoCoordinator
        """
        pool = trusting(self, trust)
        if block is None and record is None:
            return Queue(pool, name, pool._native.open_queue(name))
        try:
            form = (block, record, depth, ports, overflow)
            return Queue(pool, name, pool._native.create_queue(name, form, place, mode, copies))
        except NameTaken:
            if not exist_ok:
                raise
            return Queue(pool, name, pool._native.open_queue(name))

    def store(self, name: str, **options: Any) -> Store:
        """Open a store of keys and values whose keys leave to make room for others, or make one; `hanare.Store` has the options."""
        return Store(name, pool=self, **options)

    def group(self, name: str, parties: int) -> Group:
        """Become one of the `parties` of a group that meet at its `barrier`. **Errors**: `BadGroup`, `NodeLost`."""
        return Group(self, name, parties)

    def barrier(self) -> None:
        """Wait until every rank of the job is here; alone, return at once. Ctrl-C ends the wait, and not the arrival.

        Raises
        ------
        RankGone
            A rank has ended.
        """
        self._native.barrier().result()

    async def barrier_async(self) -> None:
        """As `barrier`, for a task."""
        await _await(self._native.barrier())

    def __reduce__(self) -> Any:
        return connect, ()

    def __repr__(self) -> str:
        return f"<hanare.Pool at {self.socket or _hanare.node_socket()}, node {self.node}>"


_attachment.made_by_connect = Pool


def connect(
    socket: str | None = None,
    *,
    memory: int | str | None = None,
    nodes: int = 1,
    start: bool = True,
    tenant: str | os.PathLike[str] | None = None,
) -> Pool:
    """Attach to this host's node or, where none answers, start one that ends with this program, and say so.

    Parameters
    ----------
    socket : str, optional
        The node's socket; by default ``HANARE_NODE``, else that of this user.
    memory : int or str, optional
        What a node that is started lends, in bytes or as ``"4GiB"``; by default a quarter of this machine's memory, 4 GiB at most.
    nodes : int
        How many nodes are started; several treat each other as so many hosts would.
    start : bool
        Whether a node may be started. A tenant's program starts none.
    tenant : path, optional
        The file with the name and key of the tenant that this program is of; by default that of ``HANARE_TENANT``. Other programs, those that
        unpickle arrays of this pool among them, are of the tenant that their environment names.

    Returns
    -------
    Pool
        The same for each call with one socket and tenant.

    Raises
    ------
    NoNode
        None answers, and none could be started.
    TenantRefused
        The pool has no tenant of that name and key.
    """
    return cast(Pool, _attachment.connect(socket, memory=memory, nodes=nodes, start=start, tenant=tenant))


def _reopen(name: str, gid: int, layout: Layout, readonly: bool, mapped: bool) -> Any:
    """Open what another program has pickled."""
    pool = connect(start=False)
    region = pool.region(name, readonly=readonly)
    if region.gid != gid:
        raise UnknownRegion(f"region '{name}' was removed, and another has its name")
    return pool._of_layout(region, layout, mapped)
