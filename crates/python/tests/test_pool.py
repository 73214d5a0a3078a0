"""Arrays by name: made, opened elsewhere by the name alone, listed, removed; and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hanare
from hanare import errors


@pytest.mark.parametrize("place", ["local", "node=1", "interleave=4KiB"])
@pytest.mark.parametrize(
    "dtype", ["f8", ">i4", "?", "f2", "c16", "M8[ns]", "m8[D]", "U5", "S3", ml_dtypes.bfloat16, [("x", "f8"), ("n", "i4", (2,))]]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_name_is_enough(pool: hanare.Pool, beside: hanare.Pool, name: str, place: str, dtype: Any, order: str) -> None:
    made = pool.array((3, 4), dtype, name=name, place=place, order=order)
    values = np.zeros((3, 4), dtype)
    values[1, 2] = np.ones((), dtype)
    made[...] = values
    for here in (pool, beside):
        found = here.open(name)
        assert found.dtype == np.dtype(dtype) and found.shape == (3, 4) and found.strides == np.zeros((3, 4), dtype, order).strides
        np.testing.assert_array_equal(np.asarray(found), values)
    if "=4KiB" not in place:
        is_here = place == "local"
        assert (isinstance(pool.open(name), np.ndarray), isinstance(beside.open(name), np.ndarray)) == (is_here, not is_here)
    listed = next(row for row in pool.ls() if row["name"] == name)
    assert listed["shape"] == (3, 4) and listed["dtype"] == str(np.dtype(dtype))
    made.remove()
    assert not pool.exists(name)


def test_arrays_of_this_host_are_the_pools_own_memory(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    made = pool.zeros((4, 5), name=name)
    again = pool.open(name)
    made[2] = 7
    assert isinstance(made, np.ndarray) and np.shares_memory(made, again)
    assert beside.open(name)[2, 3] == 7
    beside.open(name)[0, 0] = 9
    assert made[0, 0] == 9 and again.sum() == 44
    assert type(made + 1) is np.ndarray and type(made.sum()) is np.float64 and type(made[[0]]) is np.ndarray
    assert isinstance(made[1:], hanare.LocalArray) and made[1:].name == name
    view = made[2]
    del made, again
    pool.remove(name)
    assert view.sum() == 35, "a view holds the memory of its region"


def test_what_is_read_only_stays_as_it_is(pool: hanare.Pool, name: str) -> None:
    made = pool.full((8,), 3, name=name)
    reader = pool.open(name, readonly=True)
    with pytest.raises(ValueError, match="read-only"):
        reader[0] = 1
    distant = pool.open(name, readonly=True, mapped=False)
    with pytest.raises(errors.BadUse, match=name):
        distant[0] = 1
    assert made.tolist() == [3] * 8 == distant.tolist()
    made.remove()


def test_regions_without_terms_are_arrays_of_bytes(pool: hanare.Pool, name: str) -> None:
    region = pool.create(name, 100)
    region.put(10, b"hello")
    assert region.get(10, 5) == b"hello" == bytes(pool.open(name)[10:15]) and len(region) == 100
    assert region.add(16, 5) == int.from_bytes(region.get(16, 8), "little") - 5
    assert pool.create(name, 100, exist_ok=True).gid == region.gid
    region.remove()


@pytest.mark.parametrize("place", ["local", "node=1"])
def test_bytes_are_read_into_a_buffer_that_is_there(pool: hanare.Pool, name: str, place: str) -> None:
    region, data = pool.create(name, 1 << 20, place=place), np.random.default_rng(1).integers(0, 255, 1 << 20, np.uint8)
    region.put(0, data)
    into = np.zeros((2, 1 << 18), np.uint8)
    address = into.ctypes.data
    region.get_into(1 << 18, into)
    assert into.ctypes.data == address and (into.ravel() == data[1 << 18 : 3 << 18]).all()
    assert region.get(1 << 18, 1 << 19) == into.tobytes() and region.get(5, 0) == b""
    with pytest.raises(errors.OutOfRange, match=name):
        region.get_into((1 << 20) - 5, into)
    with pytest.raises(BufferError):
        region.get_into(0, into[:, ::2])
    with pytest.raises(BufferError):
        region.get_into(0, bytes(5))
    with pytest.raises(MemoryError):
        region.get(0, 1 << 60)
    region.remove()
    if place != "local":
        # Memory of this host stays for who has it.
        with pytest.raises(errors.UnknownRegion, match=name):
            region.get_into(0, np.zeros(8))
        with pytest.raises(errors.UnknownRegion, match=name):
            region.get(0, 8)


REFUSED = [
    (lambda pool, name: pool.array(4, object), TypeError),
    (lambda pool, name: pool.array(4, "S0"), TypeError),
    (lambda pool, name: pool.array((4, 0)), ValueError),
    (lambda pool, name: pool.array((4, -1)), ValueError),
    (lambda pool, name: pool.array(4, "no such type"), TypeError),
    (lambda pool, name: pool.array(4, name="a/\n"), errors.BadName),
    (lambda pool, name: pool.array(4, name=name), errors.NameTaken),
    (lambda pool, name: pool.array(4, place="nearby"), errors.BadPlacement),
    (lambda pool, name: pool.array(4, place="node=77"), errors.BadPlacement),
    (lambda pool, name: pool.array(1 << 50), errors.Error),
    (lambda pool, name: pool.array(1 << 30), errors.PoolFull),
    (lambda pool, name: pool.open(name + "."), errors.UnknownRegion),
    (lambda pool, name: pool.remove(name + "."), errors.UnknownRegion),
    (lambda pool, name: pool.region(name).get(90_000, 1), errors.OutOfRange),
    (lambda pool, name: pool.region(name).get_into(0, b"read-only"), BufferError),
    (lambda pool, name: pool.open(name, mapped=False)[99], IndexError),
    (lambda pool, name: pool.open(name, mapped=False)["field"], IndexError),
    (lambda pool, name: pool.open(name, mapped=False)[1.5], IndexError),
    (lambda pool, name: pool.open(name, mapped=False).__setitem__(slice(0, 3), [1, 2]), ValueError),
    (lambda pool, name: pool.open(name, mapped=False).reshape(3), ValueError),
    (lambda pool, name: np.asarray(pool.open(name, mapped=False), copy=False), ValueError),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_input_is_an_exception_of_its_kind(pool: hanare.Pool, number: int) -> None:
    call, kind = REFUSED[number]
    name = f"refusals.{number}"
    kept = pool.zeros(8, name=name)
    with pytest.raises(kind) as told:
        call(pool, name)
    if isinstance(told.value, hanare.Error):
        assert told.value.happened in ("no", "yes", "unknown") and str(told.value)
    kept.remove()


def test_every_error_of_the_pool_has_its_class(repository: Any) -> None:
    source = (repository / "crates/protocol/src/error.rs").read_text()
    body = source[source.index("pub enum Error {") :].split("\n}\n")[0]
    variants = {line.split(" {")[0].strip() for line in body.splitlines() if line.startswith("    ") and line.endswith(" {")}
    variants = {variant for variant in variants if variant.isidentifier() and variant[0].isupper()}
    assert len(variants) > 30
    missing = {variant for variant in variants if not issubclass(getattr(errors, variant, int), errors.Error)}
    assert not missing


def test_fields_of_errors_are_attributes(pool: hanare.Pool, name: str) -> None:
    region = pool.create(name, 10)
    with pytest.raises(IndexError) as told:
        region.get(5, 10)
    assert isinstance(told.value, errors.OutOfRange)
    assert (told.value.region, told.value.offset, told.value.limit) == (name, 5, 10)  # type: ignore[attr-defined]
    assert told.value.happened == "no" and name in str(told.value)
    region.remove()


def test_tables_are_read_on_terminals_and_in_notebooks(pool: hanare.Pool) -> None:
    table = pool.info()
    assert [row["state"] for row in table] == ["alive", "alive"] and "alive" in repr(table)
    assert table._repr_html_().count("<tr>") == 3


def test_the_number_of_copies_changes_while_a_region_is_used(pool: hanare.Pool, name: str) -> None:
    region = pool.create(name, 1 << 16, copies=2)
    region.put(5, b"kept")
    for copies in (1, 2, 1):
        pool.set_copies(name, copies)
        region.put(100, b"%d" % copies)
        assert bytes(region.get(5, 4)) == b"kept"
    with pytest.raises(errors.BadPlacement, match="the pool has 2"):
        pool.set_copies(name, 3)
    region.remove()


def test_a_region_that_was_made_without_copies_gets_some_while_it_is_used(pool: hanare.Pool, name: str) -> None:
    region = pool.create(name, 1 << 16)
    array = pool.array((100,), "i8", name=f"{name}.array", place="local")
    region.put(5, b"kept")
    array[:] = 7
    for one in (name, f"{name}.array"):
        pool.set_copies(one, 2)
    for k in range(100):
        region.put(9, b"%03d" % k)
        array[k] += k
        assert bytes(region.get(5, 7)) == b"kept%03d" % k
    assert list(array[:]) == [7 + k for k in range(100)]
    region.remove()
    pool.remove(f"{name}.array")
