"""NumPy's own arrays in the pool: `allocator` has NumPy take their memory from this host's node (NEP 49)."""

from __future__ import annotations

from typing import Any

from . import _hanare
from .pool import Pool, connect

__all__ = ["allocator"]

#: Bytes of the first arena, unless it is told: one page table's worth.
_MEMORY = 2 << 20


class allocator:
    """A context in which NumPy takes the memory of new arrays from this host's node.

    Every array that is made inside has its elements in the pool: results of functions, copies, arrays of libraries that stand on
    NumPy. Arrays outlive the context; their memory goes back to the node when nobody has them any more, or when the program ends,
    however it ends. The memory has no name: to share an array, use `Pool.array`.

    Parameters
    ----------
    pool : Pool, optional
        The pool; by default that of `connect`.
    memory : int
        Bytes that are taken of the node at first; more come as they are needed, twice as many each time, up to 1 GiB at a time.

    Notes
    -----
    **Cost**: a block of memory that was taken costs no message; one message each way to this host's node for each doubling. It holds for
    the thread or the task that enters it, as all contexts of NumPy. An array that the node has no memory for is a `MemoryError`,
    and `failure` says why. Arrays keep their bytes when the node ends.

    A child made by fork sees the bytes of its parent's arrays as threads would, not as they were at the fork, and until its parent ends;
    what it makes itself is its own.

    Examples
    --------
    >>> with hanare.allocator():
    ...     table = np.zeros((1000, 1000))
    """

    def __init__(self, pool: Pool | None = None, *, memory: int = _MEMORY) -> None:
        if memory <= 0:
            raise ValueError("an allocator has at least one byte of memory")
        self.pool = pool if pool is not None else connect()
        socket = self.pool.socket or _hanare.node_socket()
        self._native = _hanare.Allocator(self.pool._native, socket, memory)
        self._before: list[Any] = []

    def __enter__(self) -> allocator:
        self._before.append(self._native.enter())
        return self

    def __exit__(self, *_: object) -> None:
        self._native.leave(self._before.pop())

    @property
    def nbytes(self) -> int:
        """Bytes that arrays have now."""
        return self._native.lens()[0]

    @property
    def taken(self) -> int:
        """Bytes that the node lends for them."""
        return self._native.lens()[1]

    @property
    def failure(self) -> BaseException | None:
        """Why the last array that could not be made had no memory."""
        return self._native.failure()

    def __repr__(self) -> str:
        return f"<hanare.allocator: {self.nbytes} of {self.taken} bytes>"
