"""The module that array-api-tests test: NumPy's functions, on arrays that lie on another node.

Whatever makes an array makes a `hanare.Array`; an array without elements stays NumPy's, as no region has no bytes.
"""

from __future__ import annotations

import inspect
import weakref
from typing import Any, Callable

import numpy as np

import hanare

_pool = hanare.connect(nodes=2, memory="512MiB")


def _remove(name: str) -> None:
    try:
        _pool.remove(name)
    except hanare.Error:
        return


def _away(array: Any) -> Any:
    """Move an array to the other node; its region goes with the last view of it."""
    if isinstance(array, (list, tuple)):
        return type(array)(map(_away, array))
    made = np.asarray(array)
    if not isinstance(array, (np.ndarray, np.generic)) or made.size == 0:
        return array
    moved = _pool.from_numpy(made, place="node=1")
    weakref.finalize(moved.region, _remove, moved.name)
    return moved


def _maker(function: Callable[..., Any]) -> Callable[..., Any]:
    def make(*arguments: Any, **options: Any) -> Any:
        return _away(function(*arguments, **options))

    try:
        make.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except ValueError:
        # NumPy does not say it of all that is written in C.
        pass
    return make


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """As `numpy.asarray`; an array of the pool stays what it is, where neither type nor copy is asked for."""
    if isinstance(obj, hanare.Array):
        if (dtype is None or dtype == obj.dtype) and not copy:
            return obj
        if copy is False:
            raise ValueError("another type needs a copy")
        return _away(obj.get().astype(obj.dtype if dtype is None else dtype))
    made = np.asarray(obj, dtype=dtype, device=device, copy=copy)
    if copy is False:
        return made
    return _away(made)


for _name in ("arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like"):
    globals()[_name] = _maker(getattr(np, _name))


def __getattr__(name: str) -> Any:
    return getattr(np, name)


def __dir__() -> list[str]:
    return dir(np)
