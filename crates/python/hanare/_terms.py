"""What a region's attributes say of the array that it holds: the terms of a .npy header, which C and the command read too."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
from numpy.lib import format as npy

from .errors import BadAttributes

#: Kinds of elements that nodes calculate with, by NumPy's type string on this machine.
_ELEMENTS = {np.dtype(kind + length).str: f"{kind}{8 * int(length)}" for kind in "iu" for length in "1248"}
_ELEMENTS |= {np.dtype("f4").str: "f32", np.dtype("f8").str: "f64"}

#: Axes of an array, as many as every NumPy has.
_AXES_MAX = 32

#: Attribute with the name of a type that NumPy does not have by itself.
_EXTENSION = "dtype"


def element_of(dtype: np.dtype[Any]) -> str | None:
    """Return the pool's name for elements of that type, if nodes calculate with them."""
    return _ELEMENTS.get(dtype.str) if dtype.names is None and dtype.subdtype is None else None


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type as NumPy has it, if its elements are bytes.

    Raises
    ------
    TypeError
        Objects: their bytes are addresses of this program.
    """
    known = np.dtype(dtype)
    if known.hasobject:
        raise TypeError(f"elements of {known} are addresses of this program's objects; other programs cannot use them")
    if known.itemsize == 0:
        raise TypeError(f"elements of {known} have no bytes; give them a length")
    return known


def to_attributes(dtype: np.dtype[Any], shape: tuple[int, ...], fortran_order: bool) -> dict[str, bytes]:
    """Return the attributes of a region that holds such an array."""
    is_foreign = dtype.kind == "V" and dtype.names is None and dtype.type is not np.void
    descr = npy.dtype_to_descr(np.dtype(f"V{dtype.itemsize}") if is_foreign else dtype)
    written = descr if isinstance(descr, str) else repr(descr)
    terms = {"descr": written, "fortran_order": str(fortran_order), "shape": repr(tuple(int(axis) for axis in shape))}
    if is_foreign:
        terms[_EXTENSION] = dtype.name
    return {name: value.encode() for name, value in terms.items()}


def from_attributes(name: str, attributes: dict[str, bytes], length: int) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return element type, shape and order of the array in a region; without such attributes it is one of bytes.

    Raises
    ------
    BadAttributes
        They make no array of that many bytes.
    """
    if "descr" not in attributes or "shape" not in attributes:
        return np.dtype(np.uint8), (length,), False
    try:
        text = {term: value.decode() for term, value in attributes.items()}
        descr = text["descr"]
        terms: Any = ast.literal_eval(descr) if descr.startswith("[") else descr
        dtype = npy.descr_to_dtype(terms)
        if _EXTENSION in text:
            dtype = _extension(text[_EXTENSION])
        shape = ast.literal_eval(text["shape"])
        order = {"True": True, "False": False}[text.get("fortran_order", "False")]
        is_shape = isinstance(shape, tuple) and len(shape) <= _AXES_MAX and all(type(axis) is int and 0 <= axis < 1 << 63 for axis in shape)
        count = math.prod(shape) if is_shape else 0
        is_plain = not dtype.hasobject and dtype.itemsize > 0 and dtype.subdtype is None
        if not is_shape or not is_plain or count * dtype.itemsize > length:
            raise ValueError(f"{descr} {shape} of {length} bytes")
    except (ValueError, TypeError, KeyError, SyntaxError, OverflowError, RecursionError, MemoryError, AttributeError) as odd:
        raise BadAttributes(f"region '{name}' says of itself what no array is: {odd}") from odd
    return dtype, shape, order


def _extension(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError as missing:
        raise TypeError(f"elements of {name} need the package ml_dtypes") from missing
    kind = getattr(ml_dtypes, name, None)
    if not isinstance(kind, type) or not issubclass(kind, np.generic):
        raise TypeError(f"ml_dtypes has no {name}")
    return np.dtype(kind)
