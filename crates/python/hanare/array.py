"""Arrays whose bytes are on other hosts, or on several: what is done with them is done where the bytes are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _functions, _reduce
from ._elements import Elements
from ._index import Layout, Places, Shape, resolve
from ._local import LocalArray
from ._terms import element_of
from .errors import BadUse

if TYPE_CHECKING:
    from .pool import Pool, Region

__all__ = ["Array"]

#: Bytes of an array that are here at a time, where it is gone through in parts.
CHUNK_LEN = 16 << 20

#: What in-place operations become, where the elements are updated in their places, each in one step.
_UPDATES: dict[Any, str] = {np.add: "add", np.subtract: "add", np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor"}

#: Elements that can be updated so.
_UPDATED = ("i32", "u32", "i64", "u64", "f32", "f64")


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bytes of a C-contiguous array, as an array without a copy."""
    return array.reshape(-1).view(np.uint8)


class Array(Elements, NDArrayOperatorsMixin):
    """An array in the pool whose bytes are on other hosts, or interleaved over several.

    A basic index (numbers, slices, ``...``, ``newaxis``, a field's name) gives a view, and moves nothing. `get`, ``numpy.asarray``
    and lists or masks as indices fetch, in one command, the elements that they name and no others. Assignments likewise.
    Sums, means, extremes, `any`, `all` and counts are made where the bytes lie, along axes too, and a few bytes come back; so is `argmax` of
    a whole array. ``a += b``, ``a -= b``
    and ``numpy.add.at`` update each element in its place in one step that no other update divides. All else goes through the
    array in parts of 16 MiB: results are `numpy.ndarray`, or go to the `Array` given by ``out=``.

    Attributes
    ----------
    region : Region
        The region with its bytes.
    shape, strides : tuple of int
        Elements along each axis, and bytes from one to the next.
    dtype : numpy.dtype
        Its elements.
    """

    __array_priority__ = 100.0

    region: Region

    def __init__(self, region: Region, layout: Layout) -> None:
        self.region, self._layout = region, layout

    @property
    def pool(self) -> Pool:
        """Its pool."""
        return self.region.pool

    def __repr__(self) -> str:
        nodes = ", ".join(str(node) for node, _ in self.region.native.extents()[:8])
        return f"<hanare.Array '{self.name}' {self.shape} {self.dtype} on node {nodes}>"

    def __reduce__(self) -> Any:
        return self.region._reference(self._layout, mapped=False)

    # Views.

    def _seen(self, layout: Layout) -> Array:
        return Array(self.region, layout)

    @property
    def T(self) -> Array:
        """A view with the axes in the other order."""
        return self.transpose()

    @property
    def mT(self) -> Array:
        """A view with the last two axes in each other's place."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self.swapaxes(-1, -2)

    @property
    def device(self) -> str:
        """``"cpu"``, as all that NumPy's functions take."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """Return itself: there is one device. **Errors**: `ValueError` for another, or a stream."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"there is one device, 'cpu', and no stream; not {device!r}")
        return self

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        """Return a capsule of what `get` fetches. **Errors**: `BufferError` where no copy may be made."""
        if copy is False:
            raise BufferError("its bytes are on other hosts: they cannot be had without a copy")
        return self.get().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name for the main memory of this host, to which `__dlpack__` fetches."""
        return np.empty(0).__dlpack_device__()

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        """Return NumPy, whose functions take arrays of the pool."""
        return np.empty(0).__array_namespace__(api_version=api_version)

    def transpose(self, *axes: Any) -> Array:
        """Return a view with other axes first, as `numpy.ndarray.transpose`."""
        return self._seen(self._layout.via(lambda shadow: shadow.transpose(*axes)))

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Return a view of another shape.

        Raises
        ------
        ValueError
            Its elements do not lie so that a view has that shape; ``a.get().reshape(...)`` copies.
        """
        wanted = shape[0] if len(shape) == 1 else shape
        return self._seen(self._layout.via(lambda shadow: np.reshape(shadow, wanted, order=order, copy=False)))  # type: ignore[call-overload]

    def ravel(self) -> Array:
        """Return a view of one axis. **Errors**: as for `reshape`."""
        return self.reshape(-1)

    def squeeze(self, axis: Any = None) -> Array:
        """Return a view without axes of one element."""
        return self._seen(self._layout.via(lambda shadow: shadow.squeeze(axis)))

    def swapaxes(self, first: int, second: int) -> Array:
        """Return a view with two axes in each other's place."""
        return self._seen(self._layout.via(lambda shadow: shadow.swapaxes(first, second)))

    def _broadcast(self, shape: tuple[int, ...]) -> Array:
        return self._seen(self._layout.via(lambda shadow: np.broadcast_to(shadow, shape)))

    def _index(self, key: Any) -> tuple[Layout | Places, bool]:
        plain = tuple(map(_plain, key)) if isinstance(key, tuple) else _plain(key)
        return resolve(self._layout, plain)

    def __getitem__(self, key: Any) -> Any:
        found, is_element = self._index(key)
        if isinstance(found, Places):
            return self._fetch([found.command], found.shape, found.dtype)
        view = self._seen(found)
        return view.get()[()] if is_element else view

    # Moving bytes.

    def _fetch(self, commands: list[Shape], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        into = np.empty(shape, dtype)
        if into.size:
            self._move(self.region.native.get, commands, bytes_of(into))
        return into

    def _move(self, move: Any, commands: list[Shape], memory: np.ndarray[Any, Any]) -> None:
        each = memory.size // len(commands)
        for number, command in enumerate(commands):
            move(command, memory[number * each : (number + 1) * each])

    def get(self) -> np.ndarray[Any, Any]:
        """Return its elements in this program's memory.

        **Cost**: one message each way for each node touched, and its bytes alone. The GIL is released.

        Raises
        ------
        NodeLost, RegionLost, PageLost, Timeout
            Never empty or old bytes for lost ones.
        """
        return self._fetch(self._layout.commands(), self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("its bytes are on other hosts: they cannot be had without a copy")
        fetched = self.get()
        return fetched if dtype is None else fetched.astype(dtype, copy=False)

    def __setitem__(self, key: Any, value: Any) -> None:
        found, _ = self._index(key)
        if found.shape and 0 in found.shape:
            np.broadcast_to(_plain(value), found.shape)
            return
        if _has_gaps(found.dtype):
            return self._set_fields(key, found, value)
        if isinstance(value, Array) and isinstance(found, Layout) and self._copy_from(found, value):
            return
        if isinstance(found, Layout) and found.size * found.dtype.itemsize > CHUNK_LEN and np.ndim(value):
            return self._put_in_parts(self._seen(found), value)
        commands = [found.command] if isinstance(found, Places) else found.commands()
        given = np.asarray(_plain(value))
        if given.ndim == 0 or given.size == 1:
            return self._fill(commands, given.reshape(()).astype(found.dtype, casting="unsafe"))
        # Axes of one element in front are as if they were not there.
        while given.ndim > len(found.shape) and given.shape[0] == 1:
            given = given[0]
        whole = np.ascontiguousarray(np.broadcast_to(given.astype(found.dtype, copy=False), found.shape))
        self._move(self.region.native.put, commands, bytes_of(whole))

    def _set_fields(self, key: Any, found: Layout | Places, value: Any) -> None:
        """Write the fields of records, and leave what lies between them as it is."""
        given = np.asarray(_plain(value), None if isinstance(value, (np.ndarray, Array)) else found.dtype)
        records = np.empty(given.shape, found.dtype)
        records[...] = given
        for field in found.dtype.names or ():
            if isinstance(found, Layout):
                self._seen(found.via(lambda shadow, field=field: shadow[field]))[...] = records[field]  # type: ignore[misc]
            else:
                self[field][key] = records[field]

    def _fill(self, commands: list[Shape], element: np.ndarray[Any, Any]) -> None:
        pattern = bytes_of(np.ascontiguousarray(element))
        for command in commands:
            self.region.native.fill(command, pattern)

    def _put_in_parts(self, target: Array, value: Any) -> None:
        source = value if isinstance(value, Array) else np.asarray(value)
        source = source._broadcast(target.shape) if isinstance(source, Array) else np.broadcast_to(source, target.shape)
        for part in target._parts():
            target[part] = np.asarray(source[part])

    def _copy_from(self, found: Layout, value: Array) -> bool:
        """Have the nodes copy it among themselves, where that is all; say whether they did."""
        if value.dtype != found.dtype or value.region.gid == self.region.gid or value.pool is not self.pool:
            return False
        source = value._broadcast(found.shape)._layout.commands()
        target = found.commands()
        if len(source) != 1 or len(target) != 1 or found.size == 0:
            return False
        self.pool._native.copy(value.region.native, source[0], self.region.native, target[0])
        return True

    def _parts(self, length: int = CHUNK_LEN) -> Iterator[tuple[Any, ...]]:
        """Indices of parts of at most `length` bytes, or of one element, in order."""
        within, axis = self.itemsize, self.ndim
        while axis > 0 and within * self.shape[axis - 1] <= length:
            axis -= 1
            within *= self.shape[axis]
        if axis == 0:
            yield (...,)
            return
        step = max(length // max(within, 1), 1)
        for outer in np.ndindex(*self.shape[: axis - 1]):
            for begin in range(0, self.shape[axis - 1], step):
                yield (*(slice(at, at + 1) for at in outer), slice(begin, begin + step), ...)

    def prefetch(self) -> None:
        """Do nothing: commands reach its bytes where they are. For a mapping see `map`."""

    def copy_to(self, other: Any) -> None:
        """Copy its elements to another array of its shape. Between arrays of the pool the bytes go from node to node."""
        other[...] = self

    def map(self, consistency: str = "coherent") -> LocalArray:
        """Return a `numpy.ndarray` over the same elements: pages come when they are touched.

        Parameters
        ----------
        consistency : {"coherent", "explicit", "entry"}
            What programs that map it see of each other: what threads of one see; what was made visible by `LocalArray.flush`
            there and `LocalArray.update` here; or what comes and goes with locks (`Lock.bind`). All programs map a region in the same way at a time.

        Notes
        -----
        A page that nobody can supply any more ends the program that touches it: that is the price of plain loads. Where nodes may
        go, use the array itself: it raises exceptions.
        """
        try:
            view = self.region.native.map(consistency)
        except BadUse as odd:
            # The home that refuses it knows the region by its number.
            raise BadUse(f"array '{self.name}' cannot be mapped: {odd}") from odd
        return LocalArray._over(view, self.region, self._layout)

    def remove(self) -> None:
        """Remove its region from the pool."""
        self.region.remove()

    # Copies in this program's memory.

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        rows = max(CHUNK_LEN // max(self.nbytes // max(self.shape[0], 1), 1), 1)
        for begin in range(0, self.shape[0], rows):
            yield from self[begin : begin + rows].get()

    def __contains__(self, value: Any) -> bool:
        return any((self[part].get() == value).any() for part in self._parts())

    def copy(self, order: str = "C") -> np.ndarray[Any, Any]:
        """Return its elements in this program's memory, as `get`."""
        return np.array(self.get(), order=order)  # type: ignore[call-overload]

    def astype(self, dtype: Any, **options: Any) -> np.ndarray[Any, Any]:
        """Return its elements in this program's memory as another type."""
        return self.get().astype(dtype, **options)

    def flatten(self, order: str = "C") -> np.ndarray[Any, Any]:
        """Return its elements in this program's memory along one axis, as `get`."""
        return self.get().flatten(order)  # type: ignore[arg-type]

    def tofile(self, file: Any, sep: str = "", format: str = "%s") -> None:
        """Write its elements to a file, as `numpy.ndarray.tofile`; without a separator they come here in parts."""
        if sep:
            return self.get().tofile(file, sep, format)
        if isinstance(file, (str, os.PathLike)):
            with open(file, "wb") as opened:
                return self.tofile(opened)
        for part in self._parts():
            self[part].get().tofile(file)

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Sort it in its place, along an axis. It comes here as a whole, and goes back; what others write meanwhile is lost."""
        _reduce.warn_of_whole(self, "sort")
        whole = self.get()
        whole.sort(axis, **options)
        self[...] = whole

    def tolist(self) -> Any:
        """Return its elements as lists."""
        return self.get().tolist()

    def item(self, *index: Any) -> Any:
        """Return one element as a Python object."""
        if index:
            return self[index[0] if len(index) == 1 and isinstance(index[0], tuple) else index].item()
        return self.get().item()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __index__(self) -> int:
        return self.get().__index__()

    __hash__ = None  # type: ignore[assignment]

    # Numbers, where they are.

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the sum. Whole arrays: made where the bytes lie, of floating-point numbers exact and rounded once."""
        return _reduce.total(self, axis, dtype, out, keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the mean; made as `sum`."""
        return _reduce.mean(self, axis, dtype, out, keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the least element; made where the bytes lie."""
        return _reduce.extreme(self, np.minimum, axis, out, keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return the greatest element; made where the bytes lie."""
        return _reduce.extreme(self, np.maximum, axis, out, keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether an element is true; looked at where the bytes lie."""
        return _reduce.truth(self, np.logical_or, axis, out, keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements are true; looked at where the bytes lie."""
        return _reduce.truth(self, np.logical_and, axis, out, keepdims)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        """Return the standard deviation; made as `var`."""
        return _reduce.spread(self, axis, dtype, out, ddof, keepdims, True)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        """Return the variance. The elements come here, in parts of 16 MiB."""
        return _reduce.spread(self, axis, dtype, out, ddof, keepdims, False)

    def argmax(self, axis: Any = None) -> Any:
        """Return the position of the first greatest element; of a whole array looked for where the bytes lie."""
        return _reduce.position(self, "max", axis)

    def argmin(self, axis: Any = None) -> Any:
        """Return the position of the first least element; of a whole array looked for where the bytes lie."""
        return _reduce.position(self, "min", axis)

    def dot(self, other: Any) -> Any:
        """Return the product with another array, of vectors in parts."""
        return _reduce.dot(self, other)

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _functions.apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return _functions.apply_function(function, arguments, options)

    def _update(self, ufunc: np.ufunc, key: Any, operand: Any) -> bool:
        """Update elements in their places, where nodes can; say whether they did."""
        element, operator = element_of(self.dtype), _UPDATES.get(ufunc)
        is_bitwise = operator not in (None, "add")
        if operator is None or element not in _UPDATED or (is_bitwise and self.dtype.kind == "f"):
            return False
        given = operand if isinstance(operand, (int, float)) and not isinstance(operand, bool) else np.asarray(_plain(operand))
        if np.result_type(self.dtype, given) != self.dtype or getattr(given, "dtype", self.dtype).kind == "b":
            return False
        found, _ = self._index(key)
        operands = np.asarray(given).astype(self.dtype) if isinstance(given, np.ndarray) else np.array(given, self.dtype)
        operands = np.negative(operands) if ufunc is np.subtract else operands
        if isinstance(found, Layout):
            commands = found.commands()
            steps = (found.offset, *(stride for count, stride in zip(found.shape, found.strides) if count > 1))
            block = self.itemsize
        else:
            commands = [found.command]
            block = found.command[1]
            steps = (block, *(found.command[3] % np.uint64(self.itemsize)))[:1]
        if any(step % self.itemsize for step in steps) or len(commands) != 1 or 0 in found.shape:
            return 0 in found.shape
        operands = operands if operands.ndim == 0 else np.ascontiguousarray(np.broadcast_to(operands, found.shape))
        self.region.native.update(commands[0], element, operator, bytes_of(np.ascontiguousarray(operands)))
        return True


def _has_gaps(dtype: np.dtype[Any]) -> bool:
    """Whether records of that type have bytes that are no field's."""
    fields: Any = dtype.fields or {}
    return bool(fields) and sum(int(kind[0].itemsize) for kind in fields.values()) < dtype.itemsize


def _plain(value: Any) -> Any:
    """An array of the pool as one of this program; all else as it is."""
    return value.get() if isinstance(value, Array) else value
