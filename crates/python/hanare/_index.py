"""What an index of an array means in bytes: a view, or a list of places.

NumPy itself decides what a basic index means: it is applied to an array of the same shape and strides without memory, of which
nothing is read.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided

#: Longest block of a list of places, in bytes: a page, as in the pool's limits.
BLOCK_LEN_MAX = 4096

#: Most dimensions of one command, as in the pool's limits.
DIM_COUNT_MAX = 8

#: A command's shape: ``(offset, block, [(count, stride), ...])`` or ``(offset, block, scale, indices)``.
Shape = tuple[Any, ...]


@dataclass(frozen=True)
class Layout:
    """How an array's elements lie in a region.

    Attributes
    ----------
    offset : int
        First byte of the first element.
    shape, strides : tuple of int
        Elements along each axis, and bytes from one to the next.
    dtype : numpy.dtype
        The elements.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for axis in self.shape:
            count *= axis
        return count

    def via(self, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Layout:
        """Return what becomes of it where NumPy's views change so."""
        shadow = as_strided(np.zeros(1, self.dtype), self.shape, self.strides)
        seen = change(shadow)
        begin = shadow.__array_interface__["data"][0]
        moved = seen.__array_interface__["data"][0] - begin if seen.size else 0
        return Layout(self.offset + moved, seen.shape, seen.strides, seen.dtype)

    def subarray(self) -> tuple[int, int, list[tuple[int, int]]]:
        """Return first byte, bytes of a block, and count and stride of each dimension of blocks, the slowest first."""
        block = self.dtype.itemsize
        dims: list[tuple[int, int]] = []
        for count, stride in zip(reversed(self.shape), reversed(self.strides)):
            if count == 1:
                continue
            if not dims and stride == block:
                block *= count
            elif dims and stride == dims[-1][0] * dims[-1][1]:
                dims[-1] = (dims[-1][0] * count, dims[-1][1])
            else:
                dims.append((count, stride))
        dims.reverse()
        return self.offset, block, dims

    def commands(self) -> list[Shape]:
        """Return the shapes of the commands that reach its elements in order: one, up to 8 dimensions."""
        offset, block, dims = self.subarray()
        starts = [offset]
        while len(dims) > DIM_COUNT_MAX:
            count, stride = dims.pop(0)
            starts = [start + step * stride for start in starts for step in range(count)]
        return [(start, block, dims) for start in starts]


@dataclass(frozen=True)
class Places:
    """Elements that a list of indices names.

    Attributes
    ----------
    shape : tuple of int
        Shape of the result.
    dtype : numpy.dtype
        The elements.
    command : tuple
        The shape of the command that reaches them, in order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    command: Shape


def is_scalar_index(entry: Any) -> bool:
    """Whether it is a whole number, and no truth value."""
    if isinstance(entry, (bool, np.bool_)):
        return False
    if isinstance(entry, np.ndarray) and (entry.ndim or entry.dtype.kind == "b"):
        return False
    try:
        operator.index(entry)
    except TypeError:
        return False
    return True


def _is_basic(entry: Any) -> bool:
    return entry is None or entry is Ellipsis or isinstance(entry, slice) or is_scalar_index(entry)


def _array_of(entry: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(entry)
    if array.size == 0 and not isinstance(entry, np.ndarray):
        array = array.astype(np.intp)
    if array.dtype.kind not in "iub":
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices")
    return array


def resolve(layout: Layout, key: Any) -> tuple[Layout | Places, bool]:
    """Return what `key` means, and whether it is one element.

    Raises
    ------
    IndexError
        As NumPy's: too many indices, or one out of bounds.
    """
    entries = key if isinstance(key, tuple) else (key,)
    # An array of no axes would have NumPy copy what it names.
    entries = tuple(operator.index(entry) if is_scalar_index(entry) else entry for entry in entries)
    if isinstance(key, str) or (isinstance(key, list) and key and all(isinstance(name, str) for name in key)):
        return layout.via(lambda shadow: shadow[key]), False
    if all(_is_basic(entry) for entry in entries):
        is_element = sum(map(is_scalar_index, entries)) == len(layout.shape) == len(entries)
        whole = entries if any(entry is Ellipsis for entry in entries) else (*entries, Ellipsis)
        return layout.via(lambda shadow: shadow[whole]), is_element
    return _places(layout, _expand(list(entries), len(layout.shape))), False


def _expand(entries: list[Any], ndim: int) -> list[Any]:
    """Write the ellipsis out, and masks as the arrays of whole numbers that they stand for; a list of one array stands for a mask."""
    given: list[Any] = []
    for entry in entries:
        if _is_basic(entry):
            given.append(entry)
            continue
        array = _array_of(entry)
        given.append(_Mask(array) if array.dtype.kind == "b" else array)
    taken = sum(_axes(entry) for entry in given)
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    dots = [at for at, entry in enumerate(given) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    rest: list[Any] = [slice(None)] * (ndim - taken)
    at = dots[0] if dots else len(given)
    # An ellipsis of no axes still parts the arrays on its two sides.
    return given[:at] + (rest or [_NOTHING] if dots else rest) + given[at + 1 :]


class _Mask:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array


_NOTHING = object()


def _axes(entry: Any) -> int:
    if entry is None or entry is Ellipsis or entry is _NOTHING:
        return 0
    return entry.array.ndim if isinstance(entry, _Mask) else 1


def _places(layout: Layout, entries: list[Any]) -> Places:
    basic: list[Any] = []
    lists: list[tuple[int, np.ndarray[Any, Any]]] = []
    positions: list[int] = []
    axis = 0
    for at, entry in enumerate(entries):
        if entry is _NOTHING:
            continue
        if isinstance(entry, _Mask):
            if entry.array.ndim == 0:
                basic.append(None)
                found: tuple[Any, ...] = (np.zeros(int(entry.array), np.intp),)
            else:
                wanted = layout.shape[axis : axis + entry.array.ndim]
                if entry.array.shape != wanted:
                    raise IndexError(f"boolean index did not match indexed array: mask has shape {entry.array.shape}, axes {wanted}")
                found = entry.array.nonzero()
                basic.extend([slice(None)] * entry.array.ndim)
            first = len(basic) - max(entry.array.ndim, 1)
            lists.extend((first + which, array) for which, array in enumerate(found))
            positions.append(at)
        elif isinstance(entry, np.ndarray) or is_scalar_index(entry):
            basic.append(slice(None))
            lists.append((len(basic) - 1, np.asarray(entry)))
            positions.append(at)
        else:
            basic.append(entry)
        axis += _axes(entry)
    view = layout.via(lambda shadow: shadow[tuple(basic) or ...])
    return _join(view, lists, are_adjacent=positions == list(range(positions[0], positions[-1] + 1)))


def _join(view: Layout, lists: list[tuple[int, np.ndarray[Any, Any]]], are_adjacent: bool) -> Places:
    """Put lists of indices of some axes and the other axes of a view together."""
    indexed = [axis for axis, _ in lists]
    try:
        where = np.broadcast_shapes(*(array.shape for _, array in lists))
    except ValueError as odd:
        shapes = " ".join(str(array.shape) for _, array in lists)
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}") from odd
    offsets: np.ndarray[Any, Any] = np.zeros(where, np.int64)
    for axis, array in lists:
        bound = view.shape[axis]
        if array.size and (array.min() < -bound or array.max() >= bound):
            wrong = array[(array < -bound) | (array >= bound)].flat[0]
            raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {bound}")
        array = array.astype(np.int64)
        offsets = offsets + np.where(array < 0, array + bound, array) * view.strides[axis]
    before = [axis for axis in range(indexed[0]) if axis not in indexed] if are_adjacent else []
    after = [axis for axis in range(len(view.shape)) if axis not in indexed and axis not in before]
    shape = (*(view.shape[axis] for axis in before), *where, *(view.shape[axis] for axis in after))
    block = view.dtype.itemsize
    while after and (view.strides[after[-1]] == block or view.shape[after[-1]] == 1) and block * view.shape[after[-1]] > 0:
        block *= view.shape[after.pop()]
    for axis in after:
        offsets = np.add.outer(offsets, np.arange(view.shape[axis], dtype=np.int64) * view.strides[axis])
    for axis in reversed(before):
        offsets = np.add.outer(np.arange(view.shape[axis], dtype=np.int64) * view.strides[axis], offsets)
    part = _part(block, view.dtype.itemsize)
    if part != block:
        offsets = np.add.outer(offsets, np.arange(0, block, part, dtype=np.int64))
    places = (offsets.reshape(-1) + view.offset).astype(np.uint64)
    if places.size and int(places.max()) < 1 << 32:
        places = places.astype(np.uint32)
    return Places(shape, view.dtype, (0, part, 1, places))


def _part(block: int, item: int) -> int:
    """Return the longest whole number of elements that a block of the list may have, of which `block` is a multiple."""
    if block <= BLOCK_LEN_MAX:
        return block
    best = 1
    for length in range(1, min(BLOCK_LEN_MAX // min(item, BLOCK_LEN_MAX), block) + 1):
        if item <= BLOCK_LEN_MAX and block % (length * item) == 0:
            best = length * item
    return best
