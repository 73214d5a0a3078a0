"""Reductions of arrays of the pool: where the bytes lie, if nodes know the elements; else in parts."""

from __future__ import annotations

import math
import os
import sys
import warnings
from typing import Any

import numpy as np

from ._elements import Elements
from ._terms import element_of
from .errors import WholeArrayWarning

#: So many parts of an array are reduced where they lie, however short they are; any number of them from so many bytes on.
#: An exact sum comes in 592 bytes. Shorter parts come here, and the array with them.
_ASKED_COUNT_MAX, _ASKED_LEN = 64, 2048

#: Arrays of at least so many bytes do not come here as a whole without a warning.
_WARNED_LEN = 16 << 20
#: Arrays and functions that were warned of, and how many are remembered.
_warned: set[tuple[int, str]] = set()
_WARNED_COUNT_MAX = 4096


def warn_of_whole(array: Elements, function: str) -> None:
    """Say, once for an array and a function, that a long array comes here to be worked on."""
    key = (array.region.gid, function)
    if array.nbytes < _WARNED_LEN or key in _warned or len(_warned) >= _WARNED_COUNT_MAX:
        return
    _warned.add(key)
    reason = f"{function} brings all {array.nbytes / (1 << 20):.0f} MiB of array '{array.name}' here"
    told = f"{reason}; sum, mean, min, max, any, all, argmax, count_nonzero and their nan forms are made where the bytes lie, where elements are numbers"
    warnings.warn(told, WholeArrayWarning, stacklevel=_depth())


def _depth() -> int:
    """How far up the first caller is that is neither this package nor NumPy."""
    depth, frame = 1, sys._getframe(1)
    inside = (os.path.dirname(__file__), os.path.dirname(np.__file__))
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        depth, frame = depth + 1, frame.f_back
    return depth


def _axes(array: Elements, axis: Any) -> tuple[int, ...]:
    """Return the axes that vanish, in order. **Errors**: `numpy.exceptions.AxisError`, `ValueError` for one named twice."""
    if axis is None:
        return tuple(range(array.ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, array.ndim)))


def _element(array: Elements) -> str | None:
    if array.dtype == np.bool_:
        return "u8"
    return element_of(array.dtype)


def _summary(array: Elements) -> tuple[int, Any, Any, Any] | None:
    """Count, sum, least and greatest of all elements that are no NaN; ``None`` where nodes cannot tell."""
    element, commands = _element(array), array._layout.commands()
    if element is None or len(commands) != 1 or array.size == 0:
        return None
    return array.region.native.reduce(commands[0], element)


def _shape(array: Elements, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    kept = ((1 if at in axes else count) for at, count in enumerate(array.shape))
    return tuple(kept) if keepdims else tuple(count for at, count in enumerate(array.shape) if at not in axes)


def _finish(result: Any, out: Any) -> Any:
    if out is None:
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
    out[...] = result
    return out


def _kept(array: Elements, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(array.shape[at] for at in range(array.ndim) if at not in axes)


def _told(array: Elements, axes: tuple[int, ...], low: Any = None, high: Any = None) -> list[tuple[int, Any, Any, Any]] | None:
    """Count, sum, least and greatest of the part of the array behind each element of a result; ``None`` where the array had better come here.

    Parts lie alike, so one shape says how, and a list of offsets where. **Cost**: some 100 bytes there and 592 back for
    each part, 1024 of them in a message.
    """
    element = _element(array)
    if element is None or array.size == 0:
        return None
    shape = _kept(array, axes)
    count = math.prod(shape)
    if count > _ASKED_COUNT_MAX and array.nbytes < _ASKED_LEN * count:
        return None
    key = tuple(slice(None) if at in axes else 0 for at in range(array.ndim))
    commands = array._layout.via(lambda shadow: shadow[(*key, ...)]).commands()
    if len(commands) != 1:
        return None
    first, block, dims = commands[0]
    offsets = np.array([first], np.int64)
    for at in range(array.ndim):
        if at not in axes:
            offsets = np.add.outer(offsets, np.arange(array.shape[at], dtype=np.int64) * array.strides[at]).reshape(-1)
    return array.region.pool._native.reduce_each(array.region.native, block, dims, offsets.tolist(), element, low, high)


def _each(array: Elements, axes: tuple[int, ...], keepdims: bool, dtype: Any, of: Any, told: Any = None) -> np.ndarray[Any, Any] | None:
    """Make each element of the result of what is told of its part, and of the part's size; ``None`` where nothing is told."""
    told = told if told is not None else _told(array, axes)
    if told is None:
        return None
    size = array.size // max(len(told), 1)
    result = np.empty(len(told), dtype)
    for at, each in enumerate(told):
        result[at] = of(each, size)
    return result.reshape(_shape(array, axes, keepdims))


def _in_parts(array: Elements, ufunc: np.ufunc, axes: tuple[int, ...], dtype: Any = None) -> np.ndarray[Any, Any]:
    """Reduce it part by part; the axes stay, with one element."""
    whole: np.ndarray[Any, Any] | None = None
    shape = _shape(array, axes, keepdims=True)
    warn_of_whole(array, f"{ufunc.__name__}.reduce")
    for part in array._parts():
        here = ufunc.reduce(array[part].get(), axis=axes, dtype=dtype, keepdims=True)
        at = tuple(slice(None) if axis in axes else step for axis, step in enumerate(_slices(part, array.ndim)))
        if whole is None:
            whole = np.empty(shape, here.dtype)
            filled = np.zeros(shape, bool)
        fresh = not filled[at].any()
        whole[at] = here if fresh else ufunc(whole[at], here)
        filled[at] = True
    assert whole is not None
    return whole


def _slices(part: tuple[Any, ...], ndim: int) -> list[Any]:
    given = [step for step in part if step is not Ellipsis]
    return given + [slice(None)] * (ndim - len(given))


def _reduced(array: Elements, ufunc: np.ufunc, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> np.ndarray[Any, Any]:
    if array.size == 0:
        return np.asarray(ufunc.reduce(np.empty(array.shape, array.dtype), axis=axes, dtype=dtype, keepdims=keepdims))
    return _in_parts(array, ufunc, axes, dtype).reshape(_shape(array, axes, keepdims))


def _sum_dtype(array: Elements) -> np.dtype[Any]:
    return np.add.reduce(np.zeros(1, array.dtype)).dtype


def total(array: Elements, axis: Any, dtype: Any, out: Any, keepdims: bool, skips_nan: bool = False) -> Any:
    """`numpy.sum`, or `numpy.nansum`."""
    axes = _axes(array, axis)
    if dtype is None and array.dtype.kind in "biuf":
        kind = _sum_dtype(array)

        def of(told: tuple[int, Any, Any, Any], size: int) -> Any:
            count, number, _, _ = told
            if kind.kind == "f":
                return number if count == size or skips_nan else np.nan
            number %= 1 << 64
            return number - (1 << 64) if kind.kind == "i" and number >> 63 else number

        made = _each(array, axes, keepdims, kind, of)
        if made is not None:
            return _finish(made, out)
    if skips_nan:
        warn_of_whole(array, "nansum")
        return np.nansum(array.get(), axis=axis, dtype=dtype, out=out, keepdims=keepdims)
    return _finish(_reduced(array, np.add, axes, keepdims, dtype), out)


def mean(array: Elements, axis: Any, dtype: Any, out: Any, keepdims: bool, skips_nan: bool = False) -> Any:
    """`numpy.mean`, or `numpy.nanmean`."""
    axes = _axes(array, axis)
    count = int(np.prod([array.shape[at] for at in axes], dtype=object)) if axes else 1
    if count and array.dtype.kind in "biuf" and dtype is None:
        kind = np.mean(np.ones(1, array.dtype)).dtype

        def of(told: tuple[int, Any, Any, Any], size: int) -> Any:
            return told[1] / told[0] if told[0] and (told[0] == size or skips_nan) else np.nan

        made = _each(array, axes, keepdims, kind, of)
        if made is not None:
            if skips_nan and np.isnan(made).any():
                warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=5)
            return _finish(made, out)
    if skips_nan or count == 0 or array.dtype.kind not in "biufc":
        function: Any = np.nanmean if skips_nan else np.mean
        warn_of_whole(array, function.__name__)
        return _finish(np.asarray(function(array.get(), axis=axes, dtype=dtype, keepdims=keepdims)), out)
    kind = np.dtype(dtype) if dtype is not None else np.mean(np.ones(1, array.dtype)).dtype
    wide = np.result_type(kind, np.float64) if kind.kind in "fc" else kind
    return _finish((_reduced(array, np.add, axes, keepdims, wide) / count).astype(kind), out)


def spread(array: Elements, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: bool, is_root: bool) -> Any:
    """`numpy.var`, or `numpy.std`: the means where the bytes lie, and the distances from them in parts."""
    axes = _axes(array, axis)
    count = int(np.prod([array.shape[at] for at in axes], dtype=object)) if axes else 1
    if array.size == 0 or dtype is not None or array.dtype.kind not in "biufc":
        function: Any = np.std if is_root else np.var
        return _finish(np.asarray(function(array.get(), axis=axes, dtype=dtype, ddof=ddof, keepdims=keepdims)), out)
    warn_of_whole(array, "std" if is_root else "var")
    kind = np.var(np.ones(1, array.dtype)).dtype
    wide = np.result_type(kind, np.float64)
    means = np.asarray(mean(array, axes, None, None, True)) if array.dtype.kind != "f" or array.itemsize > 4 else None
    if means is None:
        # The mean of short floating-point numbers is rounded to them: too early for the distances.
        means = np.asarray(_reduced(array, np.add, axes, True, wide)) / count
    squares = np.zeros(_shape(array, axes, keepdims=True), wide)
    for part in array._parts():
        at = tuple(slice(None) if axis in axes else step for axis, step in enumerate(_slices(part, array.ndim)))
        distances = np.abs(array[part].get() - means[at])
        squares[at] += np.add.reduce(np.square(distances, dtype=wide), axis=axes, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        if count - ddof <= 0:
            warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=4)
        made = squares / max(count - ddof, 0)
    made = np.sqrt(made) if is_root else made
    return _finish(made.astype(kind).reshape(_shape(array, axes, keepdims)), out)


def extreme(array: Elements, ufunc: np.ufunc, axis: Any, out: Any, keepdims: bool, skips_nan: bool = False) -> Any:
    """`numpy.min` or `numpy.max`; `numpy.nanmin` or `numpy.nanmax`."""
    axes = _axes(array, axis)
    place = 2 if ufunc is np.minimum else 3

    def of(told: tuple[int, Any, Any, Any], size: int) -> Any:
        return told[place] if told[0] == size or (skips_nan and told[0]) else np.nan

    made = _each(array, axes, keepdims, array.dtype, of) if axes else None
    if made is not None:
        if skips_nan and array.dtype.kind == "f" and np.isnan(made).any():
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=5)
        return _finish(made, out)
    if skips_nan:
        ufunc = np.fmin if ufunc is np.minimum else np.fmax
    return _finish(_reduced(array, ufunc, axes, keepdims), out)


def truth(array: Elements, ufunc: np.ufunc, axis: Any, out: Any, keepdims: bool) -> Any:
    """`numpy.any` or `numpy.all`."""
    axes = _axes(array, axis)
    zero = 0.0 if array.dtype.kind == "f" else 0

    def of(told: tuple[int, Any, Any, Any], size: int) -> Any:
        return told[0] == 0 if ufunc is np.logical_and else told[0] < size

    told = _told(array, axes, zero, zero)
    made = None if told is None else _each(array, axes, keepdims, np.bool_, of, told)
    return _finish(made if made is not None else _reduced(array, ufunc, axes, keepdims), out)


def count_nonzero(array: Elements) -> int:
    """`numpy.count_nonzero` of all elements."""
    element, commands = _element(array), array._layout.commands()
    if element is None or len(commands) != 1 or array.size == 0:
        return sum(int(np.count_nonzero(array[part].get())) for part in array._parts()) if array.size else 0
    zero = 0.0 if array.dtype.kind == "f" else 0
    return array.size - int(array.region.native.reduce(commands[0], element, zero, zero)[0])


def count_along(array: Elements, axis: Any, keepdims: bool) -> Any:
    """`numpy.count_nonzero` along axes."""
    axes = _axes(array, axis)
    zero = 0.0 if array.dtype.kind == "f" else 0
    told = _told(array, axes, zero, zero)
    if told is None:
        warn_of_whole(array, "count_nonzero")
        return np.count_nonzero(array.get(), axis=axis, keepdims=keepdims)
    return _finish(_each(array, axes, keepdims, np.intp, lambda each, size: size - each[0], told), None)


def position(array: Elements, which: str, axis: Any) -> Any:
    """`numpy.argmax` or `numpy.argmin`: of a whole array by halves, each looked at where it lies."""
    told = _summary(array) if axis is None else None
    if told is None or told[0] != array.size:
        warn_of_whole(array, f"arg{which}")
        return (np.argmax if which == "max" else np.argmin)(array.get(), axis=axis)
    sought = told[3] if which == "max" else told[2]
    before, view = 0, array
    while view.size > 1:
        along = next(at for at, count in enumerate(view.shape) if count > 1)
        half = view.shape[along] // 2
        key = (slice(None),) * along
        first, second = view[(*key, slice(0, half))], view[(*key, slice(half, None))]
        if _has(first, sought):
            view = first
        else:
            before, view = before + first.size, second
    return np.intp(before)


def _has(array: Elements, sought: Any) -> bool:
    element = _element(array)
    assert element is not None
    return array.region.native.reduce(array._layout.commands()[0], element, sought, sought)[0] > 0


def dot(left: Any, right: Any) -> Any:
    """`numpy.dot`: of two vectors in parts, of all else as NumPy does it."""
    if np.ndim(left) == 1 and np.ndim(right) == 1 and np.shape(left) == np.shape(right):
        longer = left if hasattr(left, "_parts") else right
        products = [np.dot(np.asarray(left[part]), np.asarray(right[part])) for part in longer._parts()]
        return products[0] if len(products) == 1 else np.sum(products, axis=0)
    for array in (left, right):
        if hasattr(array, "_parts"):
            warn_of_whole(array, "dot")
    return np.dot(np.asarray(left), np.asarray(right))
