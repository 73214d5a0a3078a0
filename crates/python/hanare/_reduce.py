"""Reductions of arrays of the pool: where the bytes lie, if nodes know the elements; else in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._terms import element_of

if TYPE_CHECKING:
    from .array import Array

#: Results of a reduction along axes that are asked for one by one: beyond, the array comes here in parts.
_ASKED_COUNT_MAX = 64


def _axes(array: Array, axis: Any) -> tuple[int, ...]:
    """Return the axes that vanish, in order. **Errors**: `numpy.exceptions.AxisError`, `ValueError` for one named twice."""
    if axis is None:
        return tuple(range(array.ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, array.ndim)))


def _element(array: Array) -> str | None:
    if array.dtype == np.bool_:
        return "u8"
    return element_of(array.dtype)


def _summary(array: Array) -> tuple[int, Any, Any, Any] | None:
    """Count, sum, least and greatest of all elements that are no NaN; ``None`` where nodes cannot tell."""
    element, commands = _element(array), array._layout.commands()
    if element is None or len(commands) != 1 or array.size == 0:
        return None
    return array.region.native.reduce(commands[0], element)


def _shape(array: Array, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    kept = ((1 if at in axes else count) for at, count in enumerate(array.shape))
    return tuple(kept) if keepdims else tuple(count for at, count in enumerate(array.shape) if at not in axes)


def _finish(result: Any, out: Any) -> Any:
    if out is None:
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
    out[...] = result
    return out


def _each(array: Array, axes: tuple[int, ...], dtype: Any, of: Any) -> np.ndarray[Any, Any] | None:
    """Make each element of the result of the part of the array that it stands for; ``None`` where that is not worth it, or cannot be."""
    kept = [at for at in range(array.ndim) if at not in axes]
    shape = tuple(array.shape[at] for at in kept)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count > _ASKED_COUNT_MAX or count == 0 or array.size == 0:
        return None
    result = np.empty(shape, dtype)
    for place in np.ndindex(*shape):
        key: list[Any] = [slice(None)] * array.ndim
        for at, step in zip(kept, place):
            key[at] = step
        made = of(array._seen(array._layout.via(lambda shadow: shadow[(*key, ...)])))
        if made is None:
            return None
        result[place] = made
    return result


def _in_parts(array: Array, ufunc: np.ufunc, axes: tuple[int, ...], dtype: Any = None) -> np.ndarray[Any, Any]:
    """Reduce it part by part; the axes stay, with one element."""
    whole: np.ndarray[Any, Any] | None = None
    shape = _shape(array, axes, keepdims=True)
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


def _reduced(array: Array, ufunc: np.ufunc, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> np.ndarray[Any, Any]:
    if array.size == 0:
        return np.asarray(ufunc.reduce(np.empty(array.shape, array.dtype), axis=axes, dtype=dtype, keepdims=keepdims))
    return _in_parts(array, ufunc, axes, dtype).reshape(_shape(array, axes, keepdims))


def _sum_dtype(array: Array) -> np.dtype[Any]:
    return np.add.reduce(np.zeros(1, array.dtype)).dtype


def total(array: Array, axis: Any, dtype: Any, out: Any, keepdims: bool) -> Any:
    """`numpy.sum`."""
    axes = _axes(array, axis)
    if dtype is None and array.dtype.kind in "biuf":
        kind = _sum_dtype(array)

        def of(view: Array) -> Any:
            told = _summary(view)
            if told is None:
                return None
            count, number, _, _ = told
            if kind.kind == "f":
                return kind.type(number if count == view.size else np.nan)
            number %= 1 << 64
            return kind.type(number - (1 << 64) if kind.kind == "i" and number >> 63 else number)

        made = _each(array, axes, kind, of)
        if made is not None:
            return _finish(made.reshape(_shape(array, axes, keepdims)), out)
    return _finish(_reduced(array, np.add, axes, keepdims, dtype), out)


def mean(array: Array, axis: Any, dtype: Any, out: Any, keepdims: bool) -> Any:
    """`numpy.mean`."""
    axes = _axes(array, axis)
    count = int(np.prod([array.shape[at] for at in axes], dtype=object)) if axes else 1
    if count == 0 or array.dtype.kind not in "biufc":
        return _finish(np.asarray(np.mean(array.get(), axis=axes, dtype=dtype, keepdims=keepdims)), out)
    kind = np.dtype(dtype) if dtype is not None else np.mean(np.ones(1, array.dtype)).dtype
    if dtype is None and array.dtype.kind in "biuf":

        def of(view: Array) -> Any:
            told = _summary(view)
            return None if told is None else (told[1] / view.size if told[0] == view.size else np.nan)

        made = _each(array, axes, kind, of)
        if made is not None:
            return _finish(made.reshape(_shape(array, axes, keepdims)), out)
    wide = np.result_type(kind, np.float64) if kind.kind in "fc" else kind
    return _finish((_reduced(array, np.add, axes, keepdims, wide) / count).astype(kind), out)


def extreme(array: Array, ufunc: np.ufunc, axis: Any, out: Any, keepdims: bool) -> Any:
    """`numpy.min` or `numpy.max`."""
    axes = _axes(array, axis)

    def of(view: Array) -> Any:
        told = _summary(view)
        if told is None:
            return None
        if told[0] != view.size:
            return np.nan
        return told[2] if ufunc is np.minimum else told[3]

    made = _each(array, axes, array.dtype, of) if axes else None
    if made is None:
        return _finish(_reduced(array, ufunc, axes, keepdims), out)
    return _finish(made.reshape(_shape(array, axes, keepdims)), out)


def truth(array: Array, ufunc: np.ufunc, axis: Any, out: Any, keepdims: bool) -> Any:
    """`numpy.any` or `numpy.all`."""
    axes = _axes(array, axis)

    def of(view: Array) -> Any:
        element, commands = _element(view), view._layout.commands()
        if element is None or len(commands) != 1 or view.size == 0:
            return None
        zero = 0.0 if view.dtype.kind == "f" else 0
        falses = view.region.native.reduce(commands[0], element, zero, zero)[0]
        return falses == 0 if ufunc is np.logical_and else falses < view.size

    made = _each(array, axes, np.bool_, of)
    if made is None:
        return _finish(_reduced(array, ufunc, axes, keepdims), out)
    return _finish(made.reshape(_shape(array, axes, keepdims)), out)


def count_nonzero(array: Array) -> int:
    """`numpy.count_nonzero` of all elements."""
    element, commands = _element(array), array._layout.commands()
    if element is None or len(commands) != 1 or array.size == 0:
        return sum(int(np.count_nonzero(array[part].get())) for part in array._parts()) if array.size else 0
    zero = 0.0 if array.dtype.kind == "f" else 0
    return array.size - int(array.region.native.reduce(commands[0], element, zero, zero)[0])


def position(array: Array, which: str, axis: Any) -> Any:
    """`numpy.argmax` or `numpy.argmin`: of a whole array by halves, each looked at where it lies."""
    told = _summary(array) if axis is None else None
    if told is None or told[0] != array.size:
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


def _has(array: Array, sought: Any) -> bool:
    element = _element(array)
    assert element is not None
    return array.region.native.reduce(array._layout.commands()[0], element, sought, sought)[0] > 0


def dot(left: Any, right: Any) -> Any:
    """`numpy.dot`: of two vectors in parts, of all else as NumPy does it."""
    if np.ndim(left) == 1 and np.ndim(right) == 1 and np.shape(left) == np.shape(right):
        longer = left if hasattr(left, "_parts") else right
        products = [np.dot(np.asarray(left[part]), np.asarray(right[part])) for part in longer._parts()]
        return products[0] if len(products) == 1 else np.sum(products, axis=0)
    return np.dot(np.asarray(left), np.asarray(right))
