"""The part of an array of the pool that its sums and NumPy's functions know."""

from __future__ import annotations

from typing import Any, Iterator, Protocol

import numpy as np

from . import _hanare
from ._attachment import Attachment
from ._index import Layout


class _Region(Protocol):
    """The part of a region that elements need."""

    name: str
    gid: int

    @property
    def native(self) -> _hanare.Region: ...

    @property
    def pool(self) -> Attachment: ...


class Elements:
    """Elements whose bytes are on other hosts, or on several. `hanare.Array` is the one kind, and gets them."""

    region: _Region
    _layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self._layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._layout.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._layout.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def name(self) -> str:
        """The name of its region."""
        return self.region.name

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def get(self) -> np.ndarray[Any, Any]:
        """Return the elements in this program's own memory."""
        raise NotImplementedError

    def _parts(self) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError
