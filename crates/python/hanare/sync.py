"""Locks, groups and barriers of the pool. Each wait has a form for threads, which Ctrl-C ends, and one for `asyncio`."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Callable

from . import _hanare
from ._attachment import Attachment

__all__ = ["Group", "Lock"]


async def _readable(bell: int, arm: Callable[[], None] = lambda: None) -> None:
    """Wait until the descriptor is readable, which `arm` has it become, without holding up the event loop."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def ring() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(bell, ring)
    try:
        arm()
        await came
    finally:
        loop.remove_reader(bell)


async def _await(pending: _hanare.Pending) -> Any:
    """Wait for it without holding up the event loop; a cancelled task gives it up."""
    await _readable(pending.fileno())
    return pending.result()


#: Locks that a parent holds, kept for ever in its child.
_parents: list[object] = []

#: Longer bounds are none: three years.
_BOUND_MAX_S = 1e8


def _bound(blocking: bool, timeout: float | None) -> float | None:
    """Seconds that a wait may take, ``None`` for any. **Errors**: those of `threading.Lock.acquire`."""
    if timeout is None or timeout == -1:
        return None if blocking else 0.0
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if not timeout >= 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > threading.TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
    return timeout if timeout < _BOUND_MAX_S else None


class Lock:
    """A lock by name, one for the whole pool; made by `Pool.lock`.

    Fair. A holder that dies gives it up, and the next is told so: `was_abandoned`. Any thread or task may release it. It is not
    taken twice by who has it: that waits for ever, as with `threading.Lock`.

    It has the calls of `threading.Lock`, and passes CPython's own tests of that. Three things differ. Two objects of one name are one lock, and
    `locked` tells of this object alone. ``timeout=None`` waits for ever, as ``-1`` does. A child made by fork has not got what its parent holds.

    Parameters
    ----------
    pool : Pool
        The pool.
    name : str
        Its name.
    shared : bool
        Whether others that ask so may have it at the same time.

    Examples
    --------
    >>> with pool.lock("totals"):
    ...     table[0] += 1

    Data that come and go with a lock:

    >>> accounts = pool.open("accounts", mapped=False).map("entry")
    >>> with pool.lock("account 7") as lock:
    ...     lock.bind(accounts[7])
    ...     accounts[7] += 1
    """

    def __init__(self, pool: Attachment, name: str, shared: bool = False) -> None:
        self._pool, self.name, self.shared = pool, name, shared
        self._held: _hanare.Held | None = None
        self._holder = 0

    @property
    def was_abandoned(self) -> bool:
        """Whether the last one to hold it exclusively ended without giving it back: what it protects may be half-written."""
        return self._held is not None and self._held.was_abandoned

    @property
    def is_torn(self) -> bool:
        """Whether what is bound to it is a mixture of two releases, because the last holder died while it gave much of it back.

        True once where the last holder died while it gave any of it back, and the region of that is removed or lost.
        """
        return self._held is not None and self._held.is_torn

    def bind(self, *arrays: Any) -> None:
        """Bind arrays to this lock, which is held, in the place of what was bound to it; from its release on.

        Parameters
        ----------
        *arrays : LocalArray
            Of ``Array.map("entry")``, or contiguous views of such. None: it has no data any more.

        Notes
        -----
        Whoever takes the lock from then on finds their elements as the last holder left them, in its own mappings of ``"entry"``. Stores
        are seen by nobody before the lock is given back, and by nobody at all if their program dies before. **Cost**: the bytes that were
        not bound before come here; with each taking and release those that changed go along. The GIL is released.

        Raises
        ------
        BadUse
            An array of another mapping.
        LockMisused
            The lock is shared.
        ValueError
            An array whose bytes do not lie one after another.
        """
        if self._held is None:
            raise RuntimeError(f"lock '{self.name}' is not held by this object")
        ranges = []
        for array in arrays:
            if not array.flags.c_contiguous and not array.flags.f_contiguous:
                raise ValueError("bytes that are bound to a lock lie one after another; those of this array do not")
            if getattr(array, "_view", None) is None:
                raise ValueError("it is no mapped array of the pool")
            ranges.append((array._view, array._begin(), array.nbytes))
        self._held.bind(ranges).result()

    def locked(self) -> bool:
        """Whether this object holds it."""
        return self._held is not None

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take it, waiting as long as others have it, or for `timeout` seconds.

        Returns
        -------
        bool
            Whether it was taken: ``False`` only without `blocking`, or after `timeout`.

        Raises
        ------
        ValueError, OverflowError
            A `timeout` without `blocking`, below 0 (but -1), or beyond `threading.TIMEOUT_MAX`.
        NodeLost
            The pool's home is gone.
        LockLost
            Once, where this program lost another lock meanwhile.
        """
        bound = _bound(blocking, timeout)
        if self.shared and self._held is not None:
            raise RuntimeError(f"lock '{self.name}' is shared by this object already")
        try:
            self._held = self._pool._native.lock(self.name, self.shared, bound).result()
        except TimeoutError:
            return False
        self._holder = os.getpid()
        return True

    async def acquire_async(self) -> bool:
        """As `acquire`, for a task."""
        self._held = await _await(self._pool._native.lock(self.name, self.shared, None))
        self._holder = os.getpid()
        return True

    def _at_fork_reinit(self) -> None:
        """Be a lock that this object does not hold, as `threading` asks of locks in a child made by fork."""
        held, self._held = self._held, None
        if held is None:
            return
        if self._holder == os.getpid():
            held.release().result()
        else:
            # The parent holds it still.
            _parents.append(held)

    def _take(self) -> _hanare.Held:
        held, self._held = self._held, None
        if held is None:
            raise RuntimeError(f"lock '{self.name}' is not held by this object")
        return held

    def release(self) -> None:
        """Give it back.

        Raises
        ------
        LockLost
            Others may have had it meanwhile: look at what it protects, then take it again.
        """
        self._take().release().result()

    async def release_async(self) -> None:
        """As `release`, for a task."""
        await _await(self._take().release())

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    async def __aenter__(self) -> Lock:
        await self.acquire_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release_async()

    def __repr__(self) -> str:
        return f"<{'locked' if self._held else 'unlocked'} hanare.Lock object '{self.name}' at {id(self):#x}>"


class Group:
    """A place in a named group of parties that meet; made by `Pool.group`. Left when it is deleted.

    Parameters
    ----------
    pool : Pool
        The pool.
    name : str
        Its name.
    parties : int
        How many there are; the same for all.
    """

    def __init__(self, pool: Attachment, name: str, parties: int) -> None:
        self._group = pool._native.group(name, parties)
        self.name, self.parties = name, parties

    def barrier(self) -> None:
        """Wait until every party is here. Ctrl-C ends the wait, and not the arrival: others count this party as being here.

        Raises
        ------
        PartyGone
            A party left or ended.
        """
        self._group.barrier().result()

    async def barrier_async(self) -> None:
        """As `barrier`, for a task."""
        await _await(self._group.barrier())

    def __repr__(self) -> str:
        return f"<hanare.Group '{self.name}' of {self.parties}>"
