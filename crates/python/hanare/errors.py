"""The exceptions of the pool: one class for each kind of error, all below `Error`.

Each has the fields of its kind as attributes (``error.region``, ``error.node`` ...), and says what it means for the caller:

``happened``
    ``"no"``: nothing was done; ``"yes"``: all was done, only its answer is lost; ``"unknown"``: it may have been done in part.
``may_retry``
    Whether the same call can succeed later, without the caller changing it.

The message says what to do next. Where Python has an exception of that meaning, the class is one of those too: a lost node is a
`ConnectionError`, an unknown region a `LookupError`.
"""

from __future__ import annotations

import json as _json


class Error(Exception):
    """What the pool refused, or could not do."""

    happened: str = "no"
    may_retry: bool = False


class UnknownRegion(Error, LookupError):
    """No region of that name (or it was removed)."""


class NameTaken(Error, FileExistsError):
    """A region of that name exists."""


class BadName(Error, ValueError):
    """The name is empty, too long, or holds a character that a file name cannot."""


class BadLength(Error, ValueError):
    """The length is zero, smaller than the region is, or another than an existing region's."""


class BadPlacement(Error, ValueError):
    """The placement names no such node, or a chunk that is no power of two of at least a page."""


class OutOfRange(Error, IndexError):
    """Some byte of the range lies beyond the region's end."""


class BadShape(Error, ValueError):
    """Blocks overlap, a product overflows, or a buffer has another length than the shape."""


class BadDimension(Error, IndexError):
    """A dimension of a sub-array leads out of the region."""


class BadIndex(Error, IndexError):
    """An index names a block beyond the region's end."""


class BadElement(Error, TypeError):
    """Elements of that kind, at that place, do not go with that operation."""


class Broken(Error, ConnectionError):
    """The connection broke while a command that must not be repeated was under way; ``happened`` says what became of it."""


class NoPermission(Error, PermissionError):
    """The user may not do that to the region."""


class QuotaExceeded(Error, MemoryError):
    """The user's quota would be exceeded."""


class PoolFull(Error, MemoryError):
    """Nodes have not that much free memory where the placement wants it."""


class LimitReached(Error, ValueError):
    """A named limit of the pool was reached."""


class NodeLost(Error, ConnectionError):
    """The node's process or host is gone, or its lease ended."""


class RegionLost(Error, ConnectionError):
    """The node that held these bytes went, and the bytes with it."""


class GrantRefused(Error, PermissionError):
    """The grant is of an older epoch, of another extent, or was never given."""


class NoNode(Error, ConnectionError):
    """No node answers on this host."""


class NoCoordinator(Error, ConnectionError):
    """The coordinator is away: naming fails, data go on."""


class Timeout(Error, TimeoutError):
    """A peer did not answer within the bound; it may or may not have happened."""


class RankGone(Error, ConnectionError):
    """A rank of the job ended while others wait for it."""


class VersionMismatch(Error):
    """The other side speaks another version of the wire."""


class KeyRefused(Error, PermissionError):
    """The peer could not prove that it has the pool's key."""


class Garbage(Error, ConnectionError):
    """A peer sent something that no correct one sends."""


class BadUse(Error):
    """The region, or a handle of it, may not be used that way."""


class IsMapped(Error):
    """Programs share the region coherently: it is reached through its pages alone."""


class BadSetting(Error, ValueError):
    """A setting, an address or a file has no usable value."""


class System(Error, OSError):
    """The operating system refused something."""


class NotInTime(Error, TimeoutError):
    """What was waited for did not come within the caller's bound; nothing was changed."""


class LockLost(Error, ConnectionError):
    """The connection that held a lock ended, so the lock went to others while its holder went on."""


class LockMisused(Error, RuntimeError):
    """A lock was taken twice by one thread, in another mode than it is held, or given back by one who has not got it."""


class BadGroup(Error, ValueError):
    """A group has another number of parties, is complete without this one, or is met twice by one party."""


class PartyGone(Error, ConnectionError):
    """A party of a group went while others need it."""


class NoBlock(Error, ValueError):
    """No block of the region's heap begins there."""


class HeapFull(Error, MemoryError):
    """The heap has no free block that is long enough."""


class PageLost(Error, ConnectionError):
    """A page's newest bytes went with the host that had stored to it; the page's home is there."""


class NoQueue(Error, LookupError):
    """No queue is there, or one that makes no sense."""


class QueueFull(Error, BlockingIOError):
    """The lane has no room, and the queue's overflow has none left either."""


class SecondReader(Error):
    """Another program reads the queue."""


class NotAWriter(Error):
    """The lane belongs to another writer, or to none."""


class BadBlock(Error, ValueError):
    """A block has another length than the queue's, or a record is too long."""


class WriterGone(Error, ConnectionError):
    """A writer died; all that it had committed was read."""


class ReaderGone(Error, ConnectionError):
    """The reader died while this writer waits for room; another reader may come."""


class NotTrusted(Error, PermissionError):
    """Another user made the region, or may have written what lies there, and this program did not say that it trusts that user."""


class TooOld(Error):
    """A node of the pool is of an older build that does not know the request."""


class TenantRefused(Error, PermissionError):
    """The pool has no tenant with the name and key of the file that ``HANARE_TENANT`` or ``tenant=`` names."""


class TenantGone(Error, PermissionError):
    """The program's tenant was removed from the pool."""


class BadAttributes(Error, TypeError):
    """The region does not say what its elements are, or says what this program cannot read."""


class NoCheckpoint(Error, LookupError):
    """There is no checkpoint of that name, or nothing was saved to it yet."""


class DamagedCheckpoint(Error):
    """No generation of the checkpoint is as it was saved; the message says what is wrong with each."""


class Superseded(Error):
    """Another program saved a newer generation of the checkpoint meanwhile; this one was not kept."""


class OlderCheckpointWarning(UserWarning):
    """A newer generation of a checkpoint is damaged, and an older one is loaded."""


class WholeArrayWarning(UserWarning):
    """A function brings a long array of other hosts here as a whole. Said once for each array and function."""


def _make(name: str, message: str, fields: str, happened: str, may_retry: bool) -> Error:
    """Make the exception of that class, for the extension module."""
    found = globals().get(name)
    kind = found if isinstance(found, type) and issubclass(found, Error) else Error
    error = kind(message)
    told = _json.loads(fields)
    for field, value in told.items() if isinstance(told, dict) else ():
        setattr(error, field, value)
    error.happened, error.may_retry = happened, may_retry
    return error
