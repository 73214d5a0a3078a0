"""NumPy's functions on arrays of the pool: some where the bytes are, the others in parts, or on what they fetch."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from . import _reduce
from ._elements import Elements


def _is_ours(value: Any) -> bool:
    return isinstance(value, Elements)


def fetched(value: Any) -> Any:
    """Return the same with the pool's arrays in this program's memory, also within tuples, lists and dictionaries."""
    if _is_ours(value):
        return value.get()
    if isinstance(value, (tuple, list)):
        return type(value)(fetched(each) for each in value)
    if isinstance(value, dict):
        return {name: fetched(each) for name, each in value.items()}
    return value


_REDUCTIONS: dict[np.ufunc, str] = {
    np.add: "sum",
    np.minimum: "min",
    np.maximum: "max",
    np.logical_and: "all",
    np.logical_or: "any",
}


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `numpy.ndarray.__array_ufunc__` does, for inputs and outputs of which some are the pool's."""
    outs: tuple[Any, ...] = tuple(options.get("out") or ())
    if method == "at" and _is_ours(inputs[0]):
        return _at(ufunc, *inputs)
    if method == "reduce" and ufunc in _REDUCTIONS and _is_ours(inputs[0]) and set(options) <= {"axis", "dtype", "out", "keepdims"}:
        options = {"axis": 0, **options}
        if options.get("dtype") is None:
            options.pop("dtype", None)
        if outs:
            options["out"] = outs[0]
        if "dtype" not in options or ufunc is np.add:
            return getattr(inputs[0], _REDUCTIONS[ufunc])(**options)
    if method != "__call__" or ufunc.signature is not None or options.get("where", True) is not True:
        return _on_fetched(ufunc, method, inputs, options, outs)
    if len(outs) == 1 and _is_ours(outs[0]):
        return _into(ufunc, inputs, options, outs[0])
    return _in_parts(ufunc, inputs, options)


def _warn_of(arguments: Any, function: str) -> None:
    for argument in arguments:
        if _is_ours(argument):
            _reduce.warn_of_whole(argument, function)
        elif isinstance(argument, (tuple, list)):
            _warn_of(argument, function)


def _at(ufunc: np.ufunc, target: Any, key: Any, *operands: Any) -> None:
    if len(operands) == 1 and target._update(ufunc, key, operands[0]):
        return
    _warn_of((target,), f"{ufunc.__name__}.at")
    whole = target.get()
    getattr(ufunc, "at")(whole, fetched(key), *fetched(operands))
    target[...] = whole


def _on_fetched(ufunc: np.ufunc, method: str, inputs: Any, options: dict[str, Any], outs: tuple[Any, ...]) -> Any:
    _warn_of(inputs, ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
    here = {**fetched(options), **({"out": fetched(outs)} if outs else {})}
    result = getattr(ufunc, method)(*fetched(inputs), **here)
    for out, made in zip(outs, here.get("out", ())):
        if _is_ours(out):
            out[...] = made
    return (outs[0] if len(outs) == 1 else outs) if outs else result


def _is_same(one: Any, other: Any) -> bool:
    return _is_ours(one) and one.region.gid == other.region.gid and one._layout == other._layout


def _into(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any], out: Any) -> Any:
    """An operation whose result goes to an array of the pool."""
    if len(inputs) == 2 and len(options) == 1 and _is_same(inputs[0], out) and not _shares(inputs[1], out):
        if np.broadcast_shapes(np.shape(inputs[1]), out.shape) == out.shape and out._update(ufunc, ..., inputs[1]):
            return out
    shape = np.broadcast_shapes(*(np.shape(given) for given in inputs))
    if np.broadcast_shapes(shape, out.shape) != out.shape:
        raise ValueError(f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {shape}")
    rest = {name: value for name, value in options.items() if name != "out"}
    # An input that lies elsewhere in the same bytes is read before they change.
    inputs = tuple(given.get() if _shares(given, out) and not _is_same(given, out) else given for given in inputs)
    for part in out._parts():
        here = ufunc(*(_part_of(given, out.shape, part) for given in inputs), **rest)
        if not np.can_cast(here.dtype, out.dtype, rest.get("casting", "same_kind")):
            rule = rest.get("casting", "same_kind")
            raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output from {here.dtype!r} to {out.dtype!r} with casting rule '{rule}'")
        out[part] = here
    return out


def _shares(given: Any, out: Any) -> bool:
    return _is_ours(given) and given.region.gid == out.region.gid


def _part_of(given: Any, shape: tuple[int, ...], part: tuple[Any, ...]) -> Any:
    if np.ndim(given) == 0:
        return fetched(given)
    if _is_ours(given):
        return given._broadcast(shape)[part].get()
    return np.broadcast_to(given, shape)[part]


def _in_parts(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """An operation whose result is this program's: the inputs come in parts, so that they and the result are not here at once."""
    shape = np.broadcast_shapes(*(np.shape(given) for given in inputs))
    largest = max((given for given in inputs if _is_ours(given)), key=lambda given: given.nbytes, default=None)
    outs = options.get("out")
    if largest is None or outs or len(largest.shape) != len(shape) or next(iter(largest._broadcast(shape)._parts())) == (...,):
        return ufunc(*fetched(inputs), **fetched(options))
    results: list[np.ndarray[Any, Any]] = []
    for part in largest._broadcast(shape)._parts():
        made = ufunc(*(_part_of(given, shape, part) for given in inputs), **options)
        several = made if isinstance(made, tuple) else (made,)
        results = results or [np.empty(shape, each.dtype) for each in several]
        for whole, each in zip(results, several):
            whole[part] = each
    return results[0] if len(results) == 1 else tuple(results)


_HANDLED: dict[Any, Callable[..., Any]] = {}


def _handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(with_ours: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _HANDLED[function] = with_ours
        return with_ours

    return enter


def _method(function: Any, name: str) -> None:
    def call(array: Any, *arguments: Any, **options: Any) -> Any:
        options = {option: value for option, value in options.items() if value is not np._NoValue}
        known = {"axis", "dtype", "out", "keepdims"} | ({"ddof"} if name in ("std", "var") else set())
        if not _is_ours(array) or len(arguments) > 1 or not set(options) <= known:
            _warn_of((array,), function.__name__)
            return function(*fetched((array, *arguments)), **fetched(options))
        return getattr(array, name)(*arguments, **options)

    _HANDLED[function] = call


for _function, _name in (
    (np.sum, "sum"),
    (np.mean, "mean"),
    (np.min, "min"),
    (np.amin, "min"),
    (np.max, "max"),
    (np.std, "std"),
    (np.var, "var"),
    (np.amax, "max"),
    (np.any, "any"),
    (np.all, "all"),
    (np.argmax, "argmax"),
    (np.argmin, "argmin"),
    (np.transpose, "transpose"),
    (np.squeeze, "squeeze"),
):
    _method(_function, _name)


def _nan_form(function: Any, names: tuple[str, ...], reduction: Callable[..., Any]) -> None:
    """Have NumPy's function made by that reduction; `names` are its arguments behind the axis."""

    def call(array: Any, axis: Any = None, *given: Any, **named: Any) -> Any:
        named = {**dict(zip(names, given)), **named}
        options = {option: value for option, value in named.items() if value is not np._NoValue and value is not None}
        if not _is_ours(array) or not set(options) <= {"out", "keepdims"} or array.dtype.kind not in "biuf" or array.size == 0:
            _warn_of((array,), function.__name__)
            return function(fetched(array), axis=axis, **fetched(options))
        return reduction(array, axis, options.get("out"), bool(options.get("keepdims", False)))

    _HANDLED[function] = call


_nan_form(np.nansum, ("dtype", "out", "keepdims"), lambda array, axis, out, keepdims: _reduce.total(array, axis, None, out, keepdims, skips_nan=True))
_nan_form(np.nanmean, ("dtype", "out", "keepdims"), lambda array, axis, out, keepdims: _reduce.mean(array, axis, None, out, keepdims, skips_nan=True))
_nan_form(np.nanmin, ("out", "keepdims"), lambda array, axis, out, keepdims: _reduce.extreme(array, np.minimum, axis, out, keepdims, skips_nan=True))
_nan_form(np.nanmax, ("out", "keepdims"), lambda array, axis, out, keepdims: _reduce.extreme(array, np.maximum, axis, out, keepdims, skips_nan=True))


@_handles(np.shape)
def _shape(array: Any) -> Any:
    return array.shape


@_handles(np.ndim)
def _ndim(array: Any) -> int:
    return array.ndim


@_handles(np.size)
def _size(array: Any, axis: Any = None) -> Any:
    return array.size if axis is None else array.shape[axis]


@_handles(np.dot)
def _dot(left: Any, right: Any, out: Any = None) -> Any:
    made = _reduce.dot(left, right)
    if out is None:
        return made
    out[...] = made
    return out


@_handles(np.count_nonzero)
def _count_nonzero(array: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is None and not keepdims:
        return _reduce.count_nonzero(array)
    return _reduce.count_along(array, axis, keepdims)


@_handles(np.copyto)
def _copyto(target: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if _is_ours(target) and where is True:
        kind = source.dtype if hasattr(source, "dtype") else np.asarray(source).dtype
        if not np.can_cast(kind, target.dtype, casting):
            raise TypeError(f"Cannot cast array data from {kind!r} to {target.dtype!r} according to the rule '{casting}'")
        target[...] = source
        return
    whole = fetched(target)
    np.copyto(whole, fetched(source), casting=casting, where=fetched(where))
    if _is_ours(target):
        target[...] = whole


@_handles(np.array_equal)
def _array_equal(one: Any, other: Any, equal_nan: bool = False) -> bool:
    if np.shape(one) != np.shape(other):
        return False
    parts = one if _is_ours(one) else other
    return all(np.array_equal(np.asarray(one[part]), np.asarray(other[part]), equal_nan=equal_nan) for part in parts._parts())


def apply_function(function: Any, arguments: Any, options: Any) -> Any:
    """What `numpy.ndarray.__array_function__` does, for arguments of which some are the pool's."""
    ours = _HANDLED.get(function)
    if ours is not None:
        return ours(*arguments, **options)
    outs = options.get("out")
    _warn_of((*arguments, *options.values()), function.__name__)
    result = function(*fetched(arguments), **fetched(options))
    if _is_ours(outs):
        outs[...] = result
        return outs
    return result
