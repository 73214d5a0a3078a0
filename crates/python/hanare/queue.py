"""Queues of the pool: streams of blocks or records from many writers to one reader, on one host and across hosts."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterable, Iterator

from . import _hanare
from ._attachment import Attachment, connect
from ._trust import named, trusting
from .sync import _await, _readable

__all__ = ["Queue", "Reader", "Writer"]

#: Units that an iteration takes out at once.
_BATCH = 64


class Queue:
    """A queue by name; made and opened by `Pool.queue`. Pickled, it is a reference.

    Units of one writer keep their order; a unit arrives whole or not at all, and once. Nothing is dropped: see `overflow`.

    Attributes
    ----------
    name : str
        Its name: that of its region.
    block, record : int or None
        Bytes of each unit, or of the longest.
    depth : int
        Units of the greatest length that each writer's lane holds.
    ports : int
        Writers at once.
    overflow : {"wait", "refuse", "spill"}
        What becomes of a unit for which there is no room: its writer waits, is refused, or it goes to other memory of the pool.

    Examples
    --------
    >>> jobs = pool.queue("jobs", record=1024)
    >>> with jobs.writer() as writer:
    ...     writer.send(b"first")
    >>> with jobs.reader() as reader:
    ...     reader.receive()
    b'first'
    """

    def __init__(self, pool: Attachment, name: str, native: _hanare.Queue) -> None:
        self._pool, self.name, self._opened, self._in = pool, name, native, pool._native
        self.block, self.record, self.depth, self.ports, self.overflow = native.form

    @property
    def _native(self) -> _hanare.Queue:
        """The handle of the extension module, made anew in a child made by fork."""
        if self._in is not self._pool._native:
            self._opened, self._in = self._pool._native.open_queue(self.name), self._pool._native
        return self._opened

    def writer(self) -> Writer:
        """Become a writer of it, in a lane of its own.

        Raises
        ------
        LimitReached
            As many write as it has ports.
        NoPermission, NodeLost
        """
        return Writer(self._native.writer())

    def reader(self) -> Reader:
        """Become its reader, and go on where the one before ended.

        Raises
        ------
        SecondReader
            Another reads it.
        NoPermission, NodeLost
        """
        return Reader(self._native.reader())

    def stat(self) -> dict[str, Any]:
        """Return whether somebody reads it, and what each lane holds; takes no part in it."""
        has_reader, lanes = self._native.stat()
        names = ("has_writer", "bytes", "bytes_ever", "spilled")
        return {"has_reader": has_reader, "lanes": [dict(zip(names, lane)) for lane in lanes]}

    def remove(self) -> None:
        """Remove it with all that it holds."""
        self._pool._native.remove(self.name)

    def __reduce__(self) -> Any:
        return _reopen, (self.name, named(self._pool))

    def __repr__(self) -> str:
        unit = f"blocks of {self.block} B" if self.block is not None else f"records of up to {self.record} B"
        return f"<hanare.Queue '{self.name}', {unit}>"


class _Port:
    """What both sides have in common: an end."""

    _native: Any

    def close(self) -> None:
        """Leave the queue; what was sent stays. Done by ``with``, and when the port is deleted."""
        self._native.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Writer(_Port):
    """A writer of a queue; made by `Queue.writer`. One thread or task at a time uses it.

    All calls release the GIL. On the queue's host a unit takes no system call while the reader is awake.
    """

    def __init__(self, native: _hanare.Writer) -> None:
        self._native = native

    @property
    def lane(self) -> int:
        """Its lane: the reader is told when it dies."""
        return self._native.lane

    def send(self, data: Any, timeout: float | None = None) -> None:
        """Send a unit, any object with the buffer protocol; where there is no room, wait `timeout` seconds at most.

        Raises
        ------
        BadBlock
            The queue takes no unit of that length.
        QueueFull
            There is no room, and the queue's overflow is to refuse, or the queue's node has no room for what is spilled.
        TimeoutError
            No room was made in time.
        ReaderGone
            The reader died, and nobody has taken its place.
        """
        self._native.send(data, timeout)

    def try_send(self, data: Any) -> bool:
        """Send a unit if there is room just now, and return whether there was. **Errors**: as for `send`."""
        return self._native.try_send(data)

    def send_all(self, units: Iterable[Any]) -> None:
        """Send several units, which the reader sees at once as far as there is room: on another host in one message.

        Ctrl-C may end it when some of them were sent. **Errors**: as for `send`.
        """
        self._native.send_all(list(units))

    async def send_async(self, data: Any) -> None:
        """As `send`, for a task. One that is cancelled may have sent it."""
        if self._native.try_send(data):
            return
        await _await(self._native.begin_send(data))


class Reader(_Port):
    """The reader of a queue; made by `Queue.reader`. One thread or task at a time uses it.

    All calls release the GIL. Iterating, by ``for`` and by ``async for``, gives units as they come, and never ends by itself.
    """

    def __init__(self, native: _hanare.Reader) -> None:
        self._native = native

    def receive(self, timeout: float | None = None) -> bytes:
        """Take the next unit out, waiting `timeout` seconds at most.

        Raises
        ------
        TimeoutError
            None came in time.
        WriterGone
            Once, where a writer has died and all that it had sent was taken out; the others go on.
        NodeLost
            The queue's node is gone.
        """
        return self._native.receive(timeout)

    def receive_ready(self, count: int = _BATCH) -> list[bytes]:
        """Take out the units that are there, `count` at most; an empty list where there are none. **Errors**: as for `receive`."""
        return self._native.receive_ready(count)

    def fileno(self) -> int:
        """Return a descriptor for `select` and event loops: readable once there may be a unit, after `arm`."""
        return self._native.fileno()

    def arm(self) -> None:
        """Have the descriptor become readable with the next unit: after `receive_ready` gave none, before waiting for it."""
        self._native.arm()

    async def receive_async(self) -> bytes:
        """As `receive`, for a task; a cancelled one has taken nothing out."""
        while True:
            ready = self._native.receive_ready(1)
            if ready:
                return ready[0]
            await _readable(self.fileno(), self.arm)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self._native.receive(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.receive_async()


def _reopen(name: str, trust: tuple[int | str, ...]) -> Queue:
    """Open what another program has pickled."""
    pool = trusting(connect(start=False), trust)
    return Queue(pool, name, pool._native.open_queue(name))
