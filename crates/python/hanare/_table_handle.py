"""The handle of a table in the pool: a dictionary's, or a store's. A child made by fork opens it anew."""

from __future__ import annotations

import weakref
from typing import Any, Generic, Protocol, TypeVar

from . import _attachment
from ._attachment import Attachment
from .errors import BadAttributes, BadUse

#: How often a bucket that others change is tried: some seconds.
_TURN_COUNT_MAX = 5000


class _Table(Protocol):
    def give_back(self) -> None: ...


_Native = TypeVar("_Native", bound=_Table)


class TableHandle(Generic[_Native]):
    """What opens a table of the extension module, `kind`, on `pool` by its name and the terms on which it is made."""

    def _open_as(self, kind: Any, pool: Attachment, name: str, *terms: Any) -> None:
        self._opens = kind, pool, name, terms
        try:
            self._native: _Native = kind(pool._native, name, *terms, _TURN_COUNT_MAX)
        except BadUse as odd:
            raise BadAttributes(str(odd)) from None
        self._generation = _attachment.generation
        # The blocks that it keeps for this program's writes go back with the last reference, or at the program's end.
        weakref.finalize(self, self._native.give_back)

    def _here(self) -> _Native:
        """The handle of the extension module, opened anew in a child made by fork."""
        if self._generation != _attachment.generation:
            # The parent's handle is left as it is.
            _attachment.kept.append(self._native)
            kind, pool, name, terms = self._opens
            self._open_as(kind, pool, name, *terms)
        return self._native
