"""An array on another node does what `numpy.ndarray` does, whatever index, value or function it meets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import hanare
from hanare._index import Layout, resolve

DTYPES = ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8", "?", "c16", "f2", ">i4", "M8[ms]", "U3", "i4,f8"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, max_side=5)


def filled(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    if dtype == "?":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if dtype == "i4,f8":
        made = np.zeros(shape, dtype)
        made["f0"], made["f1"] = np.arange(count).reshape(shape), np.arange(count).reshape(shape) / 4
        return made
    return (np.arange(count) - (0 if dtype[0] in "uUM" or dtype == "?" else count // 2)).reshape(shape).astype(dtype)


class Both:
    """The same array on another node, interleaved over both, and in this program."""

    def __init__(self, pool: hanare.Pool) -> None:
        self.pool, self.kept = pool, {}

    def __call__(self, shape: tuple[int, ...], dtype: str, order: str = "C") -> tuple[hanare.Array, np.ndarray[Any, Any]]:
        here = filled(shape, dtype)
        key = (shape, dtype, order)
        if key not in self.kept:
            self.kept[key] = self.pool.array(shape, dtype, place="node=1", order=order)
        there = self.kept[key]
        assert isinstance(there, hanare.Array)
        there[...] = here
        return there, np.array(here, order=order)


@pytest.fixture(scope="module")
def both(pool: hanare.Pool) -> Any:
    made = Both(pool)
    yield made
    for array in made.kept.values():
        array.remove()


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Any index of NumPy: basic ones, lists, masks, and both at once."""
    if draw(st.booleans()):
        return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    entries: list[Any] = []
    where = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    axis = 0
    while axis < len(shape):
        kind = draw(st.sampled_from(["slice", "array", "mask", "integer", "newaxis", "end"]))
        side = shape[axis]
        if kind == "end":
            break
        if kind == "newaxis":
            entries.append(None)
            continue
        if kind == "slice":
            entries.append(draw(st.slices(side)))
        elif kind == "integer":
            entries.append(draw(st.integers(-side, side - 1)))
        elif kind == "array":
            entries.append(draw(hnp.arrays(np.int64, where, elements=st.integers(-side, side - 1))))
        else:
            entries.append(draw(hnp.arrays(np.bool_, (side,))))
        axis += 1
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), ...)
    return tuple(entries)


def outcome(work: Any) -> tuple[type | None, Any]:
    try:
        return None, work()
    except (IndexError, ValueError, TypeError) as error:
        return type(error), None


def same(there: Any, here: Any) -> None:
    there = there.get() if isinstance(there, hanare.Array) else there
    np.testing.assert_array_equal(there, here)
    assert np.shape(there) == np.shape(here) and np.asarray(there).dtype == np.asarray(here).dtype


@given(data=st.data(), shape=SHAPES, dtype=st.sampled_from(DTYPES), order=st.sampled_from("CF"))
def test_every_index_gives_what_numpy_gives(both: Both, data: st.DataObject, shape: Any, dtype: str, order: str) -> None:
    there, here = both(shape, dtype, order)
    key = data.draw(indices(shape))
    refused, wanted = outcome(lambda: here[key])
    told, found = outcome(lambda: there[key])
    assert (refused is None) == (told is None), (key, refused, told)
    if refused is None:
        same(found, wanted)


@given(data=st.data(), shape=SHAPES, dtype=st.sampled_from(DTYPES), order=st.sampled_from("CF"), is_scalar=st.booleans())
def test_assignments_change_what_numpy_changes(
    both: Both, data: st.DataObject, shape: Any, dtype: str, order: str, is_scalar: bool
) -> None:
    there, here = both(shape, dtype, order)
    key = data.draw(indices(shape))
    refused, part = outcome(lambda: here[key])
    if refused is not None:
        with pytest.raises((IndexError, ValueError, TypeError)):
            there[key] = 0
        return
    value = filled(np.shape(part), dtype)[::-1] if np.ndim(part) else filled((), dtype)
    value = value.flat[0] if is_scalar and np.size(part) else value
    here[key] = value
    there[key] = value
    same(there, here)


@given(data=st.data(), dtype=st.sampled_from(["i4", "u8", "f4", "f8"]), operator=st.sampled_from(["+", "-", "*", "&", "|", "^"]))
def test_operations_in_place_give_what_numpy_gives(both: Both, data: st.DataObject, dtype: str, operator: str) -> None:
    there, here = both((4, 5), dtype)
    ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[operator]
    key = data.draw(hnp.basic_indices((4, 5)))
    operand = data.draw(st.sampled_from([3, 2.5, np.int64(7), np.arange(5), np.arange(20.0).reshape(4, 5), True]))
    def change(array: Any) -> None:
        part = array[key]
        ufunc(part, operand, out=part)

    refused, _ = outcome(lambda: change(here))
    told, _ = outcome(lambda: change(there))
    # A single element is no view of either, and no output.
    assert (refused is None) == (told is None), (refused, told, key)
    same(there, here)


@given(
    dtype=st.sampled_from(["i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8", "?", "f2", ">i4", "c16"]),
    name=st.sampled_from(["sum", "min", "max", "mean", "any", "all", "argmax", "argmin"]),
    axis=st.sampled_from([None, 0, 1, -1]),
    step=st.sampled_from([1, 2, -1]),
    has_nan=st.booleans(),
)
def test_reductions_give_what_numpy_gives(both: Both, dtype: str, name: str, axis: Any, step: int, has_nan: bool) -> None:
    there, here = both((6, 7), dtype)
    if has_nan and dtype in ("f4", "f8"):
        here[3, 2] = there[3, 2] = np.nan
    wanted, found = getattr(here[::step], name)(axis=axis), getattr(there[::step], name)(axis=axis)
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype == "f4" else 1e-12)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype and np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(getattr(np, name)(there[::step], axis=axis), wanted, rtol=1e-6 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("place", ["node=1", "interleave=4KiB"])
def test_large_arrays_go_through_in_parts(pool: hanare.Pool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanare.array.CHUNK_LEN", 10_000)
    monkeypatch.setattr(hanare.Array._parts, "__defaults__", (10_000,))
    here = np.arange(60_000.0).reshape(30, 40, 50)
    there = pool.from_numpy(here, place=place)
    same(np.sqrt(there), np.sqrt(here))
    same(there + np.arange(50), here + np.arange(50))
    same(there.sum(axis=0), here.sum(axis=0))
    same(there.max(axis=(0, 2)), here.max(axis=(0, 2)))
    np.multiply(there, 2, out=there)
    same(there, here * 2)
    there *= 0.5
    same(there, here)
    assert there.sum() == here.sum() and there[:, 3].sum() == here[:, 3].sum()
    assert np.dot(there[0, :, 0], there[1, :, 1]) == np.dot(here[0, :, 0], here[1, :, 1])
    assert 17.0 in there and -1.0 not in there
    same(np.concatenate([there[0], there[1]]), np.concatenate([here[0], here[1]]))
    assert np.array_equal(there, here) and np.count_nonzero(there) == np.count_nonzero(here)
    there.remove()


def test_fields_of_records_are_written_alone(pool: hanare.Pool, name: str) -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8"), ("c", "u1")], align=True)
    there, here = pool.zeros(6, dtype, name=name, place="node=1"), np.zeros(6, dtype)
    for array in (there, here):
        array["b"] = np.arange(6) / 2
        array[["a", "c"]] = np.ones(6, [("a", "i4"), ("c", "u1")])
        array[["a"]][2:4] = np.full(2, 7, [("a", "i4")])
        array[[0, 5]] = (3, 2.5, 9)
        array[1] = (4, 3.5, 8)
    for field in dtype.names or ():
        same(there[field], here[field])
    assert there[["a", "b"]].get().tolist() == here[["a", "b"]].tolist() and there[2]["a"] == 7
    there.remove()


def test_only_the_useful_bytes_move(pool: hanare.Pool, name: str) -> None:
    there = pool.zeros(1 << 20, "f8", name=name, place="node=1")
    there[:] = 1

    def moved(work: Any) -> int:
        before = pool.traffic()
        work()
        after = pool.traffic()
        return after["bytes_received"] + after["bytes_sent"] - before["bytes_received"] - before["bytes_sent"]

    assert moved(lambda: there.sum()) < 4096
    assert moved(lambda: there[::16].sum()) < 4096
    assert moved(lambda: there.argmax()) < 64 * 1024
    assert moved(lambda: there.__setitem__(slice(None, None, 2), 5)) < 4096
    assert moved(lambda: there.__iadd__(1)) < 4096
    assert moved(lambda: there[::1024].get()) < 2 * 8 * 1024
    places = np.arange(0, 1 << 20, 1024)
    assert moved(lambda: there[places]) < 2 * 12 * 1024
    assert moved(lambda: there[:100].get()) < 2 * 800
    assert there[0] == 6 and there[1] == 2
    there.remove()


def test_copies_between_arrays_go_from_node_to_node(pool: hanare.Pool, name: str) -> None:
    source = pool.from_numpy(np.arange(1 << 18, dtype="f8").reshape(512, 512), place="node=1", name=name)
    target = pool.zeros((256, 256), "f8", place="interleave=4KiB", name=name + "t")
    before = pool.traffic()
    target[...] = source[::2, ::2]
    after = pool.traffic()
    assert after["bytes_received"] - before["bytes_received"] < 4096
    same(target, source.get()[::2, ::2])
    source.remove(), target.remove()


@given(shape=SHAPES, data=st.data())
def test_commands_reach_each_element_once_in_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    here = np.arange(int(np.prod(shape)), dtype="i8").reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    layout, _ = resolve(Layout(0, here.shape, here.strides, here.dtype), key)
    assert isinstance(layout, Layout)
    reached: list[int] = []
    for offset, block, dims in layout.commands() if layout.size else []:
        starts = [offset]
        for count, stride in dims:
            starts = [start + step * stride for start in starts for step in range(count)]
        reached += [number for start in starts for number in range(start // 8, (start + block) // 8)]
    assert reached == np.atleast_1d(here[key]).ravel().tolist()
