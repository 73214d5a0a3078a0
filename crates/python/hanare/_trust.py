"""Whose regions a program believes in: its own user's, and those of users that it names.

A name belongs to who makes a region of it first. Doors that take a region for more than bytes (`Dict`, queues, caches, files) take ``trust=``,
and refuse the regions of all others with `NotTrusted`.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from typing import TypeVar, Union, cast

from ._attachment import ANYONE, Attachment, Users, connect

#: A user's number or name, several of them, or ``"anyone"``; ``None`` is this program's own user.
Trusted = Union[None, int, str, Iterable[Union[int, str]]]

_A = TypeVar("_A", bound=Attachment)


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


def _users(trust: Trusted) -> Users:
    """Write down whom it names, without double ones."""
    if trust is None:
        return ()
    named = (trust,) if isinstance(trust, (int, str)) else tuple(trust)
    return tuple(sorted({each if each == ANYONE else _number(each) for each in named}, key=str))


def trusting(pool: _A | None, trust: Trusted) -> _A:
    """Return the pool, or that of `connect`, with trust in those users."""
    pool = pool if pool is not None else cast(_A, connect())
    users = _users(trust)
    return pool._with_trust(users) if users else pool


def named(pool: Attachment) -> Users:
    """Return whom a pool trusts beside this program's user, for another program."""
    return pool._users
