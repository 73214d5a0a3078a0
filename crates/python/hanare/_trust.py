"""Whose regions a program believes in: its own user's, and those of users that it names.

A name belongs to who makes a region of it first. Doors that take a region for more than bytes (`Dict`, queues, caches, files) take ``trust=``,
and refuse the regions of all others with `NotTrusted`.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from typing import Union

from . import _hanare, pool as _pools
from .pool import Pool, connect

#: A user's number or name, several of them, or ``"anyone"``; ``None`` is this program's own user.
Trusted = Union[None, int, str, Iterable[Union[int, str]]]

_ANYONE = "anyone"


def _number(user: int | str) -> int:
    if isinstance(user, bool) or not isinstance(user, (int, str)):
        raise TypeError(f"a user is a number or a name, not {user!r}")
    if isinstance(user, str):
        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            raise ValueError(f"there is no user '{user}' on this host; give a number, or 'anyone'") from None
    if not 0 <= user < 1 << 32:
        raise ValueError(f"{user} is no number of a user")
    return user


def _users(trust: Trusted) -> tuple[Union[int, str], ...]:
    """Write down whom it names, without double ones."""
    if trust is None:
        return ()
    named = (trust,) if isinstance(trust, (int, str)) else tuple(trust)
    return tuple(sorted({each if each == _ANYONE else _number(each) for each in named}, key=str))


class Trusting(Pool):
    """A pool's attachment, with trust in further users."""

    def __init__(self, pool: Pool, users: tuple[Union[int, str], ...]) -> None:
        self.socket, self._nodes, self._views = pool.socket, None, pool._views
        self._of, self._users, self._generation = pool, users, _pools._generation
        self._from: _hanare.Pool | None = None

    @property
    def _native(self) -> _hanare.Pool:
        native = self._of._native
        if self._from is not native:
            numbers = [user for user in self._users if isinstance(user, int)]
            if self._from is not None:
                # The parent's handle is left as it is, in a child made by fork.
                _pools._kept.append(self._attached)
            self._from, self._attached = native, native.trusting(numbers, _ANYONE in self._users)
        return self._attached


def trusting(pool: Pool | None, trust: Trusted) -> Pool:
    """Return the pool, or that of `connect`, with trust in those users."""
    pool = pool if pool is not None else connect()
    users = _users(trust)
    return Trusting(pool, users) if users else pool


def named(pool: Pool) -> tuple[Union[int, str], ...]:
    """Return whom a pool trusts beside this program's user, for another program."""
    return pool._users if isinstance(pool, Trusting) else ()
