"""Arrays whose bytes are on this host: `numpy.ndarray`, on the pool's own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._index import Layout

if TYPE_CHECKING:
    from . import _hanare
    from .pool import Pool, Region

__all__ = ["LocalArray"]


class LocalArray(np.ndarray[Any, np.dtype[Any]]):
    """A `numpy.ndarray` whose bytes are the pool's: no copy, and all of NumPy.

    Views hold the memory, which stays readable when its node has ended. Pickled, it is a reference: another program of the pool that
    unpickles it has the same bytes. Results that lie elsewhere are plain `numpy.ndarray`.

    Attributes
    ----------
    region : Region or None
        The region with its bytes; ``None`` for an array that lies elsewhere.
    """

    region: Region | None
    _view: _hanare.View | None

    @classmethod
    def _over(cls, view: _hanare.View, region: Region, layout: Layout) -> LocalArray:
        made = np.ndarray.__new__(cls, layout.shape, layout.dtype, memoryview(view), layout.offset, layout.strides)
        made.region, made._view = region, view
        return made

    def __array_finalize__(self, of: Any) -> None:
        self.region = self._view = None
        if isinstance(of, LocalArray) and of._view is not None and np.may_share_memory(self, of):
            self.region, self._view = of.region, of._view

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self or type(self) is not LocalArray:
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found.view(np.ndarray) if type(found) is LocalArray and found._view is None else found

    @property
    def name(self) -> str | None:
        """The name of its region."""
        return None if self.region is None else self.region.name

    @property
    def pool(self) -> Pool | None:
        """Its pool."""
        return None if self.region is None else self.region.pool

    def get(self) -> np.ndarray[Any, Any]:
        """Return a copy in this program's own memory."""
        return np.array(self, subok=False)

    def map(self, consistency: str = "coherent") -> LocalArray:
        """Return itself: it is memory of this host already."""
        return self

    def prefetch(self) -> None:
        """Do nothing: its bytes are here."""

    def copy_to(self, other: Any) -> None:
        """Copy its elements to another array of its shape, in the pool or not."""
        other[...] = self

    def remove(self) -> None:
        """Remove its region from the pool; this array keeps the bytes as long as it lives."""
        if self.region is None:
            raise ValueError("it lies in no region")
        self.region.remove()

    def flush(self) -> None:
        """Make what was stored visible to others: where its memory is shared as it is, that is so already."""
        if self._view is not None:
            self._view.flush(0, self._view.len)

    def update(self) -> None:
        """See what others made visible: where its memory is shared as it is, that is so already."""
        if self._view is not None:
            self._view.update(0, self._view.len)

    def _begin(self) -> int:
        """First byte of its first element in the region."""
        memory = np.asarray(self._view)
        return int(self.__array_interface__["data"][0] - memory.__array_interface__["data"][0])

    def __reduce__(self) -> Any:
        if self.region is None or self._view is None:
            return np.array(self, subok=False).__reduce__()
        return self.region._reference(Layout(self._begin(), self.shape, self.strides, self.dtype), mapped=True)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.get()
