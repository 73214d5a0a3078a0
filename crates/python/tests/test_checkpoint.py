"""Checkpoints of arrays: what is saved comes back, killed writers and nodes leave the one before, and no changed byte comes back as a number."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import numpy.typing as npt
import pytest
from conftest import as_user
from hypothesis import given, strategies as st
from steps import at_step

import hanare
from hanare import _node, checkpoint, errors
from hanare.checkpoint._generations import _BEGUN, _NEWEST

OTHER = 65_531


def state(number: int) -> dict[str, npt.NDArray[Any]]:
    """Arrays that tell from which save they are."""
    return {"w": np.full((40, 50), number, "f8"), "b": np.arange(number, number + 7, dtype="i4"), "step": np.array(number)}


def number_of(found: dict[str, npt.NDArray[Any]]) -> int:
    """Return the save whose arrays these are, all of them."""
    number = int(found["step"])
    assert found.keys() == state(number).keys()
    for name, array in state(number).items():
        assert array.dtype == found[name].dtype and np.array_equal(array, found[name]), name
    return number


def loaded(pool: hanare.Pool, name: str) -> tuple[int, str]:
    """Load what `state` made; return its number, and what was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        number = number_of(checkpoint.load(pool, name))
    assert all(each.category is errors.OlderCheckpointWarning for each in told)
    return number, " ".join(str(each.message) for each in told)


def regions(pool: hanare.Pool, name: str) -> set[str]:
    return {row[0] for row in pool.ls(name).rows if row[0] == name or row[0].startswith(name + "#")}


def clear(pool: hanare.Pool, name: str) -> None:
    for region in regions(pool, name):
        pool.remove(region)


def test_arrays_of_all_kinds_come_back_on_another_host(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    record = np.zeros(3, dtype=[("a", "i4"), ("b", "f8", (2,)), ("c", "S3")])
    record["b"] = 1.5
    arrays: dict[str, Any] = {
        "f": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "transposed": np.arange(24, dtype="i2").reshape(2, 3, 4).T,
        "every other": np.arange(20)[::2],
        "back": np.arange(5)[::-1],
        "none": np.empty((0, 3), "f4"),
        "one": np.float32(2.5),
        "texts": np.array(["a", "ümlaut", ""]),
        "dates": np.array(["2026-11-28", "NaT"], dtype="M8[D]"),
        "complex": np.array([1 + 2j, np.nan]),
        "big": np.arange(3, dtype=">i8"),
        "record": record,
        "a list": [1, 2, 3],
        "bools": np.array([[True], [False]]),
        "": np.zeros(1),
        "of the pool": pool.full((4, 4), 7.0, name=name + ".near"),
        "of another host": pool.full((4, 4), 8.0, name=name + ".far", place="node=1"),
    }
    assert checkpoint.save(pool, name, arrays) == 1
    found = checkpoint.load(beside, name)
    assert list(found) == list(arrays)
    for key, value in arrays.items():
        wanted = np.asarray(value)
        assert found[key].dtype == wanted.dtype and found[key].shape == wanted.shape, key
        assert found[key].tobytes() == wanted.tobytes() and found[key].flags.writeable, key
    assert found["f"].flags.f_contiguous and found["transposed"].flags.f_contiguous
    clear(pool, name)
    pool.remove(name + ".near"), pool.remove(name + ".far")


def test_two_generations_stay_and_have_two_copies(pool: hanare.Pool, name: str) -> None:
    for number in range(1, 5):
        assert checkpoint.save(pool, name, state(number)) == number
        assert loaded(pool, name) == (number, "")
    assert regions(pool, name) == {name} | {f"{name}#{number}.{part}" for number in (3, 4) for part in ("0", "index")}
    for region in regions(pool, name):
        assert '"copies":2' in pool._native.stat(region).replace(" ", ""), region
    assert checkpoint.save(pool, name, state(5), keep=1) == 5
    assert regions(pool, name) == {name, f"{name}#5.0", f"{name}#5.index"}
    assert checkpoint.save(pool, name, {}) == 6 and checkpoint.load(pool, name) == {}
    clear(pool, name)


def test_what_is_no_checkpoint_is_refused_and_nothing_is_lost(pool: hanare.Pool, name: str) -> None:
    with pytest.raises(errors.NoCheckpoint, match=name):
        checkpoint.load(pool, name)
    checkpoint.save(pool, name, state(1))
    before = regions(pool, name)
    refused: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ({"o": np.array([object()])}, {}, TypeError, "'o'"),
        ({3: np.zeros(1)}, {}, TypeError, "texts as names"),
        (state(2), {"keep": 0}, ValueError, "one generation"),
        (state(2), {"copies": 3}, errors.BadPlacement, "copies"),
        (state(2), {"place": "node=9"}, errors.BadPlacement, "9"),
    ]
    for arrays, options, kind, words in refused:
        with pytest.raises(kind, match=words):
            checkpoint.save(pool, name, arrays, **options)
        assert loaded(pool, name) == (1, "") and regions(pool, name) == before
    with pytest.raises(ValueError, match="#"):
        checkpoint.save(pool, "a#b", state(1))
    pool.create(name + ".r", 4096)
    for work in (lambda: checkpoint.save(pool, name + ".r", state(1)), lambda: checkpoint.load(pool, name + ".r")):
        with pytest.raises(errors.BadAttributes, match="no checkpoint"):
            work()
    pool.remove(name + ".r")
    clear(pool, name)


def test_a_save_without_room_leaves_the_one_before(pool: hanare.Pool, name: str) -> None:
    checkpoint.save(pool, name, state(1))
    before = regions(pool, name)
    with pytest.raises(errors.PoolFull):
        checkpoint.save(pool, name, {"w": np.zeros(256 << 20, np.uint8)})
    assert loaded(pool, name) == (1, "") and regions(pool, name) == before
    clear(pool, name)


def in_a_child(work: Callable[[], None]) -> int:
    """Do something in a child made by fork; return how it ended, as `os.waitpid` says."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_a_writer_that_is_killed_at_any_step_leaves_the_old_or_the_new(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    checkpoint.save(pool, name, state(1000))
    last, is_switched = 1000, []

    def save_and_die(step: int) -> None:
        at_step(pytest.MonkeyPatch(), step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        checkpoint.save(pool, name, state(step))

    for step in range(200):
        status = in_a_child(lambda: save_and_die(step))
        number, told = loaded(beside, name)
        assert told == "" and number in (last, step), (step, number, told)
        is_switched.append(number == step)
        last = number
        if status == 0:
            break
        assert os.WIFSIGNALED(status), step
    else:
        raise AssertionError("the save has more steps than were tried")
    # One step switches: before it each kill leaves the old one, after it the new one.
    assert len(is_switched) > 20 and is_switched == sorted(is_switched) and is_switched[0] is False and is_switched[-2] is True
    newest = checkpoint.save(pool, name, state(1))
    assert loaded(pool, name) == (1, "")
    numbers = {int(region.split("#")[1].split(".")[0]) for region in regions(pool, name) - {name}}
    assert len(numbers) == 2 and max(numbers) == newest
    clear(pool, name)


def flip(region: hanare.Region, offset: int, mask: int = 0x10) -> None:
    region.put(offset, bytes([region.get(offset, 1)[0] ^ mask]))


@pytest.fixture
def two(pool: hanare.Pool, name: str) -> Any:
    """A checkpoint whose generation 1 is `state(1)`, and generation 2 `state(2)`."""
    checkpoint.save(pool, name, state(1))
    checkpoint.save(pool, name, state(2))
    yield name
    clear(pool, name)


def test_a_changed_byte_of_the_index_gives_the_older_generation(pool: hanare.Pool, beside: hanare.Pool, two: str) -> None:
    region = pool.region(f"{two}#2.index")
    for offset in range(region.nbytes):
        flip(region, offset)
        number, told = loaded(beside, two)
        assert number == 1 and "generation 1 is loaded" in told and "generation 2: the index" in told, offset
        flip(region, offset)
    assert loaded(pool, two) == (2, "")


@given(data=st.data())
def test_changed_bytes_of_shards_never_come_back(pool: hanare.Pool, two: str, data: st.DataObject) -> None:
    shards = checkpoint._arrays.Generations(pool, two, None).index(2).shards
    shard = data.draw(st.sampled_from(shards))
    offset = shard.offset + data.draw(st.integers(0, shard.nbytes - 1))
    mask = data.draw(st.integers(1, 255))
    region = pool.region(f"{two}#2.0")
    flip(region, offset, mask)
    try:
        number, told = loaded(pool, two)
        assert number == 1 and "another checksum" in told and f"{two}#2.0" in told
    finally:
        flip(region, offset, mask)
    assert loaded(pool, two) == (2, "")


def test_a_changed_head_is_told_and_mended_by_the_next_save(pool: hanare.Pool, two: str) -> None:
    head = pool.region(two)
    for offset in range(_NEWEST, _NEWEST + 8):
        flip(head, offset)
        number, told = loaded(pool, two)
        assert number == 2 and "its head names no generation" in told
        flip(head, offset)
    for offset, mask in ((_NEWEST, 1), (_NEWEST + 5, 0x80), (_BEGUN, 0xFF), (_BEGUN + 6, 0x7F), (_BEGUN, 0x03)):
        flip(head, offset, mask)
        newest = checkpoint.save(pool, two, state(100 + offset))
        assert loaded(pool, two) == (100 + offset, "") and f"{two}#{newest}.index" in regions(pool, two)


def test_no_whole_generation_is_an_error_that_names_each(pool: hanare.Pool, two: str) -> None:
    flip(pool.region(f"{two}#2.0"), 8)
    pool.remove(f"{two}#1.0")
    with pytest.raises(errors.DamagedCheckpoint) as failed:
        checkpoint.load(pool, two)
    assert "generation 2: " in str(failed.value) and "generation 1: " in str(failed.value) and f"{two}#1.0" in str(failed.value)
    checkpoint.save(pool, two, state(3))
    assert loaded(pool, two) == (3, "")


def test_of_two_saves_at_a_time_the_newer_stays(pool: hanare.Pool, name: str) -> None:
    checkpoint.save(pool, name, state(1))
    # Of each step: whether this save was superseded, and whether the other one is loaded.
    outcomes: list[tuple[bool, bool]] = []
    for step in range(200):
        with pytest.MonkeyPatch.context() as patch:

            def save_another() -> None:
                patch.undo()
                checkpoint.save(pool, name, state(1000 + step))

            steps = at_step(patch, step, lambda: None if in_a_child(save_another) == 0 else pytest.fail("the other save"))
            is_superseded = False
            try:
                checkpoint.save(pool, name, state(step))
            except errors.Superseded as told:
                assert "load that one" in str(told)
                is_superseded = True
        if steps() <= step:
            break
        number = loaded(pool, name)[0]
        assert number in (step, 1000 + step)
        outcomes.append((is_superseded, number >= 1000))
    # Another save before this one has its number is the older one. From there to the switch it supersedes this one, and comes after it later.
    first, last = outcomes.index((True, True)), len(outcomes) - outcomes[::-1].index((True, True))
    assert 0 < first and first + 10 < last < len(outcomes) - 1
    assert outcomes == [(False, False)] * first + [(True, True)] * (last - first) + [(False, True)] * (len(outcomes) - last)
    clear(pool, name)


def test_loads_beside_saves_are_whole(pool: hanare.Pool, beside: hanare.Pool, name: str) -> None:
    checkpoint.save(pool, name, state(0))
    is_over = threading.Event()

    def save_on() -> None:
        for number in range(1, 25):
            checkpoint.save(pool, name, state(number))
        is_over.set()

    saver = threading.Thread(target=save_on)
    saver.start()
    seen = [number_of(checkpoint.load(beside, name))]
    while not is_over.is_set():
        seen.append(number_of(checkpoint.load(beside, name)))
    saver.join()
    assert seen == sorted(seen) and loaded(beside, name)[0] == 24
    clear(pool, name)


@pytest.mark.parametrize("step", [0, 5, 9, 13, 17, 21, 25, 29])
def test_a_node_that_is_killed_at_any_step_loses_nothing(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = _node.Nodes(3, "64MiB")
    try:
        pool = hanare.Pool(nodes.sockets[0])
        options = {"place": "node=1", "copies": 2}
        checkpoint.save(pool, "model", state(1), **options)  # type: ignore[arg-type]
        victim = nodes.processes[1]
        steps = at_step(monkeypatch, step, victim.kill)
        try:
            checkpoint.save(pool, "model", state(2), **options)  # type: ignore[arg-type]
            wanted = {2}
        except errors.Error:
            wanted = {1, 2}
        monkeypatch.undo()
        assert steps() > step and victim.wait(20) != 0
        for socket in (nodes.sockets[0], nodes.sockets[2]):
            number, told = loaded(hanare.Pool(socket), "model")
            assert number in wanted and told == ""
        # Two nodes are left, as many as copies.
        checkpoint.save(pool, "model", state(3))
        assert loaded(pool, "model") == (3, "")
    finally:
        nodes.stop()


def test_another_user_s_checkpoint_is_not_believed(pool: hanare.Pool, name: str) -> None:
    def plant() -> None:
        checkpoint.save(hanare.connect(), name, state(1), mode=0o666)

    as_user(OTHER, plant)
    for work in (lambda: checkpoint.load(pool, name), lambda: checkpoint.save(pool, name, state(2))):
        with pytest.raises(errors.NotTrusted, match=str(OTHER)):
            work()
    assert number_of(checkpoint.load(pool, name, trust=OTHER)) == 1
    checkpoint.save(pool, name, state(2), trust=OTHER)
    assert number_of(checkpoint.load(pool, name, trust=OTHER)) == 2
    clear(pool, name)


def test_the_package_needs_no_torch() -> None:
    program = """
import sys
sys.modules["torch"] = None
import hanare
assert hanare.checkpoint.save and hanare.checkpoint.load
try:
    hanare.checkpoint.StorageWriter
except ImportError as missing:
    print("no torch:", missing)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "no torch:" in done.stdout, done.stderr
    with pytest.raises(AttributeError, match="nothing_such"):
        getattr(checkpoint, "nothing_such")


def test_the_page_on_checkpoints_runs(repository: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", (repository / "docs/checkpoints.md").read_text(), re.DOTALL)[0]
    environment = {**os.environ, "HANARE_NODE": "/nonexistent/node.sock"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "generation 2\n[2. 2. 2.]\n" and len(program.strip().splitlines()) <= 12
