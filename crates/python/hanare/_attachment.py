"""The attachment of a program to the pool: the handle that its arrays, queues, locks and stores share, also in children made by fork."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import weakref
from typing import TypeVar, Union

from . import _hanare, _node
from .errors import NoNode

#: How often this process was made by fork of one that had the package; handles of its parent attach anew.
generation = 0

#: Handles of a parent, kept for ever in its child: ending them would be talk on the parent's connections.
kept: list[object] = []

#: Whom an attachment trusts beside this program's user: numbers of users, and perhaps `ANYONE`.
Users = tuple[Union[int, str], ...]
ANYONE = "anyone"

_A = TypeVar("_A", bound="Attachment")


def _in_child() -> None:
    global generation, _lock
    generation += 1
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def _at_exit() -> None:
    """Leave in good order what still has handles; a program that an exception ends has failed, and says nothing."""
    if getattr(sys, "last_value", None) is not None:
        return
    for attachment in list(_opened):
        if attachment._generation == generation:
            attachment._attached.leave()


atexit.register(_at_exit)


class Attachment:
    """An attachment to the pool.

    In a child made by fork it attaches anew by itself, at its first use.
    """

    #: The attachment below this one, whose trust is narrower, and its handle of which that of this one was made.
    _of: Attachment | None = None
    _from: _hanare.Pool | None = None
    _users: Users = ()

    def __init__(self, socket: str | None, nodes: _node.Nodes | None = None, tenant: str | os.PathLike[str] | None = None) -> None:
        self.socket = socket
        self._nodes = nodes
        self._tenant = tenant
        self._attached, self._generation = _hanare.Pool.attach(socket, tenant), generation
        self._views: weakref.WeakValueDictionary[int, _hanare.View] = weakref.WeakValueDictionary()
        _opened.add(self)

    def _with_trust(self: _A, users: Users) -> _A:
        """The same attachment, with trust in further users."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _nodes=None, _of=self, _from=None, _users=users)
        return made

    @property
    def _native(self) -> _hanare.Pool:
        if self._of is not None:
            native = self._of._native
            if self._from is not native:
                numbers = [user for user in self._users if isinstance(user, int)]
                if self._from is not None:
                    # The parent's handle is left as it is, in a child made by fork.
                    kept.append(self._attached)
                self._from, self._attached = native, native.trusting(numbers, ANYONE in self._users)
        elif self._generation != generation:
            fresh = _hanare.Pool.attach(self.socket, self._tenant)
            kept.append(self._attached)
            self._attached, self._generation = fresh, generation
        return self._attached

    def close(self) -> None:
        """End the nodes that `connect` started, if it did. Arrays of this host keep their bytes as long as this program has them."""
        with _lock:
            for socket, attachment in list(_known.items()):
                if attachment is self:
                    del _known[socket]
        if self._nodes is not None and self._generation == generation:
            if os.environ.get("HANARE_NODE") == self.socket:
                del os.environ["HANARE_NODE"]
            self._nodes.stop()

    def __enter__(self: _A) -> _A:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: All attachments of this process.
_opened: weakref.WeakSet[Attachment] = weakref.WeakSet()

#: Those of `connect`, by socket and tenant's file.
_known: dict[tuple[str, str | None], Attachment] = {}
_lock = threading.Lock()

#: Type of what `connect` makes. `hanare.pool` names its `Pool` here.
made_by_connect: type[Attachment] = Attachment


def connect(
    socket: str | None = None,
    *,
    memory: int | str | None = None,
    nodes: int = 1,
    start: bool = True,
    tenant: str | os.PathLike[str] | None = None,
) -> Attachment:
    """Attach as `hanare.connect` does."""
    with _lock:
        place = socket or _hanare.node_socket()
        whose = None if tenant is None else os.fspath(tenant)
        known = _known.get((place, whose))
        if known is not None:
            return known
        try:
            made = made_by_connect(place, tenant=whose)
        except NoNode:
            if socket is not None or not start or whose is not None or os.environ.get("HANARE_TENANT"):
                raise
            started = _node.Nodes(nodes, memory)
            place = started.sockets[0]
            # Programs that this one starts are to find it too.
            os.environ["HANARE_NODE"] = place
            made = made_by_connect(place, started)
            lent = json.loads(made._native.status())["nodes"][0]["memory"]["lent"] >> 20
            which = "one was started that lends" if nodes == 1 else f"{nodes} were started, each of which lends"
            print(f"hanare: no node on this host; {which} {lent} MiB until this program ends", file=sys.stderr)
        _known[place, whose] = made
        return made
