"""A name belongs to who makes a region of it first. What another user made is not believed, and what others may have written runs no program."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any, Iterator

import fsspec
import numpy as np
import pytest
import zarr
from conftest import as_user
from hypothesis import example, given, strategies as st

import hanare
from hanare import errors, shared_memory
from hanare._hanare import decode_key
from hanare._files import Files, to_name, to_path
from hanare._terms import from_attributes
from hanare._values import ARRAY, JSON, decode_value, encode_value
from hanare.kv import PageCache
from hanare.zarr import HanareStore

USER, OTHER = 65_532, 65_531


class Evil:
    """A value whose pickle runs a program: it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark() -> Iterator[Path]:
    """Where a pickle leaves its mark: every user may make it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder) / "mark"


def plant(name: str, mark: Path) -> None:
    """Make a dictionary for everybody, with a pickle in it that runs a program, and values that run none."""
    made = hanare.Dict(name, mode=0o666, memory=1 << 20, trust="anyone", pickle=True)
    made["evil"], made["long"] = Evil(mark), [Evil(mark), np.zeros(100_000)]
    made["bytes"], made["array"], made["number"], made["text"] = b"b", np.arange(5), 1.5, "t"


def read(name: str, mark: Path) -> Any:
    with pytest.raises(errors.NotTrusted) as refused:
        hanare.Dict(name)
    assert isinstance(refused.value, PermissionError) and refused.value.happened == "no"
    assert all(part in str(refused.value) for part in (name, str(OTHER), str(USER), f"trust={OTHER}"))
    for trust, pickles in ((OTHER, None), ("anyone", None), ([0, OTHER], False), (OTHER, True)):
        shared = hanare.Dict(name, trust=trust, pickle=pickles)
        assert set(shared) == {"evil", "long", "bytes", "array", "number", "text"}
        assert (shared["bytes"], shared["number"], shared["text"]) == (b"b", 1.5, "t") and (shared["array"] == np.arange(5)).all()
        for work in (lambda: shared["evil"], lambda: shared["long"], lambda: shared.view("long"), lambda: list(shared.values())):
            with pytest.raises(errors.NotTrusted, match="pickle"):
                work()
        shared["list"] = [1, {"a": None}]
        assert shared.pop("list") == [1, {"a": None}]
        with pytest.raises(TypeError, match="pickled"):
            shared["set"] = {1}
        assert not mark.exists()
    again = pickle.loads(pickle.dumps(hanare.Dict(name, trust=OTHER)))
    assert again["bytes"] == b"b"
    # The door that was opened by two words.
    assert hanare.Dict(name, trust="anyone", pickle=True)["evil"] is None
    return mark.exists()


def test_a_neighbour_s_dictionary_is_refused_and_runs_nothing(pool: hanare.Pool, name: str, mark: Path) -> None:
    as_user(OTHER, plant, name, mark)
    assert as_user(USER, read, name, mark), "the pickle does run a program where it is read"
    hanare.Dict(name, trust=OTHER, pickle=False).remove()


def poison(name: str, mark: Path) -> None:
    shared = hanare.Dict(name, trust="anyone", pickle=True)
    shared["key"] = Evil(mark)


def test_one_s_own_dictionary_that_others_may_write_runs_nothing(pool: hanare.Pool, name: str, mark: Path) -> None:
    own = hanare.Dict(name, pool=pool, mode=0o666, memory=1 << 20)
    own["key"] = [1, 2]
    assert own["key"] == [1, 2], "without a pickle"
    as_user(OTHER, poison, name, mark)
    for pickles in (None, True, False):
        with pytest.raises(errors.NotTrusted):
            hanare.Dict(name, pool=pool, pickle=pickles)["key"]
    with pytest.raises(errors.NotTrusted):
        own["key"]
    assert not mark.exists()
    own.remove()


def plant_part(name: str, length: int) -> None:
    hanare.connect().create(name, length, mode=0o666)


@pytest.mark.parametrize("part", ["t0", "t0.0", "v0.0", "v0.1"])
def test_no_part_of_a_dictionary_is_another_user_s(pool: hanare.Pool, name: str, part: str) -> None:
    as_user(OTHER, plant_part, f"{name}.{part}", 1 << 20 if part != "t0" else 8 * 64)
    try:
        with pytest.raises(errors.NotTrusted):
            own = hanare.Dict(name, pool=pool, buckets=64, memory=1 << 20)
            for number in range(300):
                own[number] = b"secret" * 1000
        planted = pool.region(f"{name}.{part}")
        assert planted.owner == OTHER and b"secret" not in planted.get()
    finally:
        for row in pool.ls(name):
            pool.remove(row["name"])


def make_small(name: str) -> int:
    hanare.Dict(name, buckets=1, memory=1 << 20)
    return hanare.connect().region(name).gid


def plant_parts(name: str, gid: int) -> None:
    """Make regions that look like parts of somebody's dictionary."""
    for part in ("t9", "v9.0"):
        hanare.connect()._native.create(f"{name}.{part}", 100, "local", 0o666, False, {"hanare.dict.part": str(gid).encode()})


def grow(name: str) -> int:
    own = hanare.Dict(name)
    for number in range(200):
        own[number] = b"v"
    assert len(own) == 200
    return own.stat()["buckets"]


def test_another_s_part_keeps_no_table_from_being_made_anew(pool: hanare.Pool, name: str) -> None:
    gid = as_user(USER, make_small, name)
    as_user(OTHER, plant_parts, name, gid)
    assert as_user(USER, grow, name) > 1
    assert pool.region(f"{name}.t9").owner == OTHER
    for row in pool.ls(name):
        pool.remove(row["name"])


def make_all(name: str) -> None:
    pool = hanare.connect()
    pool.queue(f"{name}.queue", record=64, mode=0o666)
    cache = PageCache(f"{name}.cache", page=64, pages=8)
    cache.put(["key"], [b"page"])
    pool.create(f"{name}.bytes", 100, mode=0o666)


def test_other_doors_refuse_what_another_user_made(pool: hanare.Pool, name: str) -> None:
    as_user(OTHER, make_all, name)
    doors = {
        "queue": lambda trust: pool.queue(f"{name}.queue", trust=trust),
        "queue, made or opened": lambda trust: pool.queue(f"{name}.queue", record=64, exist_ok=True, trust=trust),
        "cache": lambda trust: PageCache(f"{name}.cache", trust=trust),
        "shared memory": lambda trust: shared_memory.SharedMemory(f"{name}.bytes", trust=trust),
        "bytes, made or opened": lambda trust: pool.create(f"{name}.bytes", 100, exist_ok=True, trust=trust),
    }
    for door, opened in doors.items():
        for trust in (None, USER, [USER, "root"]):
            with pytest.raises(errors.NotTrusted):
                pytest.fail(f"{door} with trust in {trust}: {opened(trust)}")
        for trust in (OTHER, "anyone", [USER, OTHER]):
            opened(trust)
    assert PageCache(f"{name}.cache", trust=OTHER).prefix(["key"]) == 1
    queue = pickle.loads(pickle.dumps(doors["queue"](OTHER)))
    queue.writer().send(b"unit")
    block = pickle.loads(pickle.dumps(doors["shared memory"](OTHER)))
    assert bytes(block.buf[:4]) == bytes(4)
    assert pool.region(f"{name}.bytes").owner == OTHER, "bytes are whoever's they are"
    for row in pool.ls(name):
        pool.remove(row["name"])


def test_who_is_no_user_is_not_trusted(pool: hanare.Pool, name: str) -> None:
    for wrong, error in (("nobody of that name", ValueError), (-1, ValueError), (1 << 32, ValueError), (True, TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            hanare.Dict(name, pool=pool, trust=wrong)  # type: ignore[arg-type]
    assert not pool.exists(name)


def plant_files(name: str) -> None:
    native = hanare.connect()._native
    for path, attributes in (("planted", {}), ("odd", {"length": b"xx"}), ("long", {"length": b"9" * 30}), ("zarr.json", {})):
        native.create(to_name(f"{name}/{path}"), 64, "local", 0o666, False, attributes)
    native.create(f"{name}%2F..%2F..%2Fup", 64, "local", 0o666, False, {})


def test_a_neighbour_s_regions_end_no_listing_and_are_no_files(pool: hanare.Pool, name: str) -> None:
    as_user(OTHER, plant_files, name)
    fs = fsspec.filesystem("hanare", skip_instance_cache=True)
    fs.pipe_file(f"{name}/own", b"mine")
    for wrong in ({"length": b"xx"}, {"length": b"\xff"}, {"length": b"65"}, {"length": b"-1"}):
        pool._native.create(f"{name}%2Fwrong{wrong['length'].hex()}", 64, "local", 0o600, False, wrong)
        with pytest.raises(errors.BadAttributes):
            fs.cat_file(f"{name}/wrong{wrong['length'].hex()}")
    assert fs.find(name) == fs.ls(name, detail=False) == [f"{name}/own"] and fs.cat_file(f"{name}/own") == b"mine"
    with pytest.raises(errors.NotTrusted):
        fs.cat_file(f"{name}/planted")
    with pytest.raises(errors.NotTrusted):
        fs.info(f"{name}/planted")
    trusting = fsspec.filesystem("hanare", trust=OTHER, skip_instance_cache=True)
    assert trusting.find(name) == [f"{name}/own", f"{name}/planted", f"{name}/zarr.json"]
    store = HanareStore(name)
    assert sorted(store._keys("")) == ["own"]
    with pytest.raises(errors.NotTrusted):
        zarr.open_group(store, mode="r")
    for wrong in ("../x", "a//b", "a/./b", "a/.."):
        with pytest.raises(ValueError, match="no path"):
            Files(pool).put(wrong, b"")
    for row in pool.ls(name):
        pool.remove(row["name"])


@given(st.text(max_size=20))
@example("a%2F..%2Fb")
@example("%2Fa")
@example("a%2F")
@example("%25")
def test_names_of_regions_are_paths_below_the_root_or_none(name: str) -> None:
    path = to_path(name)
    if path is not None:
        assert to_name(path) == name and all(part not in ("", ".", "..") for part in path.split("/"))


TERMS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"<f8", b"|O", b"O", b"V0", b"|V16", b"(2,)f8", b"[('x', '<f8')]", b"[('x', '|O')]", b"(3,)", b"()", b"(-1,)", b"(1.5,)", b"True"]),
    st.sampled_from([b"(" * 4000, b"-" * 4000 + b"1", b"(99999999999999999999,)", b"[[[]]]", b"f8,O", b"M8[25s]", b"(True,)", b"(0,)" , b"bfloat16", b"finfo"]),
)


@given(st.dictionaries(st.sampled_from(["descr", "shape", "fortran_order", "dtype"]), TERMS), st.integers(1, 100))
def test_attributes_of_an_array_make_one_or_a_typed_error(attributes: dict[str, bytes], length: int) -> None:
    try:
        dtype, shape, _ = from_attributes("a", attributes, length)
    except errors.BadAttributes:
        return
    made: Any = np.ndarray(shape, dtype, bytes(length))
    assert not dtype.hasobject and made.nbytes <= length


JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(st.characters(codec=None, categories=None), max_size=5)),
    lambda values: st.one_of(st.lists(values, max_size=3), st.dictionaries(st.text(max_size=3), values, max_size=3)),
    max_leaves=8,
)


@given(JSONS)
@example("\ud83d\ude00")
def test_values_of_safe_formats_come_back_as_they_were(value: Any) -> None:
    written = encode_value(value, may_pickle=False)
    assert written.kind == JSON
    back = decode_value(JSON, b"".join(written.parts))
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize("dtype", ["f8", ">i4", "?", "c16", "M8[ns]", "U5", "S3", [("x", "f8"), ("n", "i4", (2,))]])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (3, 5)])
def test_arrays_come_back_without_a_pickle(dtype: Any, shape: tuple[int, ...]) -> None:
    wanted = np.zeros(shape, dtype)
    wanted.reshape(-1).view(np.uint8)[:] = 65 if np.dtype(dtype).kind == "S" else 0
    for array in (wanted, np.asfortranarray(wanted), wanted.T, wanted[::-1] if shape else wanted):
        written = encode_value(array, may_pickle=False)
        assert written.kind == ARRAY
        back = decode_value(ARRAY, bytearray(b"".join(written.parts)))
        assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all() and back.flags.writeable


def test_what_is_no_safe_value_is_pickled_or_refused() -> None:
    for value in ({1}, (1, 2), {1: 2}, np.array([object()]), np.float64(1), 10**5000, [[[{"a": (1,)}]]], np.ma.array([1]), Evil(Path("x"))):
        with pytest.raises(TypeError, match="pickle"):
            encode_value(value, may_pickle=False)
    assert encode_value((1, 2)).kind == 1


@given(st.sampled_from([0, 3, 4, 5, 255]), st.binary(max_size=200))
def test_bytes_of_values_make_one_or_a_typed_error(kind: int, raw: bytes) -> None:
    try:
        decode_value(kind, raw)
    except errors.Garbage:
        return


@given(st.integers(0, 300), st.integers(0, 255))
def test_bytes_of_an_array_that_are_changed_make_one_or_a_typed_error(at: int, byte: int) -> None:
    raw = bytearray(b"".join(encode_value(np.arange(12.0).reshape(3, 4)).parts))
    raw[at % len(raw)] = byte
    try:
        assert isinstance(decode_value(ARRAY, raw), np.ndarray)
    except errors.Garbage:
        return


@given(st.binary(max_size=60))
@example(b"page=0,pages=1")
@example(b"page=64,pages=999999999")
@example(b"page=-64,pages=1")
def test_a_cache_s_terms_make_one_or_a_typed_error(pool: hanare.Pool, terms: bytes) -> None:
    store = pool.store("test.kv.terms", bytes=1 << 16, attributes={"hanare.kv": terms})
    try:
        cache = PageCache("test.kv.terms", pool=pool)
        assert cache.get(["a"], [bytearray(cache.page_len)]) == [0]
    except errors.BadAttributes:
        pass
    finally:
        store.destroy()


@given(st.binary(max_size=60))
@example(b"buckets=0,memory=4096,seed=1,place=local")
@example(b"buckets=1,memory=99999999999999999999999,seed=1,place=local")
@example(b"buckets=1,memory=4096,seed=1")
def test_a_dictionary_s_terms_make_one_or_a_typed_error(pool: hanare.Pool, terms: bytes) -> None:
    pool._native.create("test.dict.terms", 64, "local", 0o600, False, {"hanare.dict": terms})
    try:
        with pytest.raises((errors.BadAttributes, errors.BadPlacement)):
            hanare.Dict("test.dict.terms", pool=pool)
    finally:
        pool.remove("test.dict.terms")


def coded_keys() -> st.SearchStrategy[bytes]:
    return st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(lambda rest: b"t" + len(rest).to_bytes(4, "little") + rest))


@given(coded_keys())
@example(b"i" + b"9" * 6000)
@example(b"i 1_0 ")
@example(b"f1234567")
@example(b"t" + b"\xff" * 4)
def test_bytes_of_keys_make_one_or_a_typed_error(coded: bytes) -> None:
    try:
        key = decode_key(coded)
    except errors.Garbage:
        return
    hash(key)
