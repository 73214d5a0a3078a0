"""Hanare: arrays in memory that many machines lend.

>>> import hanare
>>> pool = hanare.connect()
>>> table = pool.zeros((1000, 1000), name="table")
>>> table[0] = 1
>>> table.sum()
1000.0

`connect` attaches to this host's node, or starts one. An array of this host is a `numpy.ndarray` on the pool's own memory; one of
other hosts is an `Array`, whose elements are moved, summed and updated where they are. Another program opens it by name alone.
"""

from . import checkpoint
from ._hanare import __version__
from ._local import LocalArray
from ._plot import plot
from .array import Array
from .dictionary import Dict
from .errors import Error
from .memory import allocator
from .pinned import Pinned, pin
from .pool import Pool, Region, connect
from .queue import Queue
from .store import Store
from .sync import Group, Lock

__all__ = [
    "Array",
    "Dict",
    "Error",
    "Group",
    "LocalArray",
    "Lock",
    "Pinned",
    "Pool",
    "Queue",
    "Region",
    "Store",
    "__version__",
    "allocator",
    "checkpoint",
    "connect",
    "pin",
    "plot",
]
