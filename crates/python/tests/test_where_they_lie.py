"""Reductions are made where the bytes lie, along axes too: few bytes come here. What brings a long array here says so, once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hanare
from hanare.errors import WholeArrayWarning

SHAPE = (260, 4, 300)


@pytest.fixture(scope="module")
def arrays(pool: hanare.Pool) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    here = np.random.default_rng(1).normal(size=SHAPE)
    there = pool.from_numpy(here, name="test.lie", place="node=1")
    yield there, here
    there.remove()


def received(pool: hanare.Pool, work: Any) -> tuple[Any, int]:
    before = pool.traffic()["bytes_received"]
    made = work()
    return made, pool.traffic()["bytes_received"] - before


@pytest.mark.parametrize("axis", [None, 0, 2, (0, 1), (1, 2), (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("function", ["sum", "mean", "min", "max", "any", "all"])
def test_a_reduction_along_axes_moves_a_few_bytes(
    pool: hanare.Pool, arrays: tuple[Any, np.ndarray[Any, Any]], function: str, axis: Any, keepdims: bool
) -> None:
    there, here = arrays
    made, moved = received(pool, lambda: getattr(there, function)(axis=axis, keepdims=keepdims))
    wanted = getattr(here, function)(axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-9)
    assert np.shape(made) == np.shape(wanted) and np.asarray(made).dtype == np.asarray(wanted).dtype
    parts = max(np.size(wanted), 1)
    assert moved <= 4096 + 700 * parts, f"{moved} bytes for {parts} results"
    assert moved < here.nbytes / 2


@pytest.mark.parametrize("view", [np.s_[::3], np.s_[:, 2], np.s_[::-1, :, ::2], np.s_[5:6]])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_views_are_reduced_where_they_lie(arrays: tuple[Any, np.ndarray[Any, Any]], view: Any, axis: int) -> None:
    there, here = arrays[0][view], arrays[1][view]
    for function in ("sum", "mean", "min", "max", "var", "std"):
        np.testing.assert_allclose(getattr(np, function)(there, axis=axis), getattr(np, function)(here, axis=axis), rtol=1e-11, atol=1e-9)
    assert (np.count_nonzero(there > 0, axis=axis) == np.count_nonzero(here > 0, axis=axis)).all()
    assert (np.count_nonzero(there, axis=axis) == np.count_nonzero(here, axis=axis)).all()


def test_nan_forms_leave_nan_out_where_it_lies(pool: hanare.Pool, name: str) -> None:
    here = np.random.default_rng(2).normal(size=(270, 300))
    here[::3, 5], here[4] = np.nan, np.nan
    there = pool.from_numpy(here, name=name, place="node=1")
    for function in (np.nansum, np.nanmean, np.nanmin, np.nanmax):
        for axis in (None, 0, 1, (0, 1)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made, moved = received(pool, lambda: function(there, axis=axis))
                np.testing.assert_allclose(made, function(here, axis=axis), rtol=1e-12, atol=1e-9)
            assert moved < here.nbytes / 2, f"{function.__name__} along {axis}: {moved} bytes"
    with pytest.warns(RuntimeWarning):
        assert np.isnan(np.nanmean(there, axis=1)[4])
    assert np.isnan(there.sum()) and np.isnan(np.sum(there, axis=1)).sum() == np.isnan(here.sum(axis=1)).sum()
    there.remove()


@pytest.mark.parametrize("dtype", ["i4", "u8", "?", "f4", "c16", ">i4"])
def test_spreads_and_sums_are_numpy_s_for_any_numbers(pool: hanare.Pool, name: str, dtype: str) -> None:
    here = (np.arange(90 * 80).reshape(90, 80) % 251).astype(dtype)
    there = pool.from_numpy(here, name=name, place="node=1")
    for axis in (None, 0, 1):
        for function in (np.sum, np.mean, np.std, np.var):
            made, wanted = function(there, axis=axis), function(here, axis=axis)
            np.testing.assert_allclose(made, wanted, rtol=1e-5)
            assert np.asarray(made).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(there.std(axis=axis, ddof=1), here.std(axis=axis, ddof=1), rtol=1e-5)
    there.remove()


def test_what_an_array_of_this_program_has_an_array_of_the_pool_has_too(pool: hanare.Pool, name: str, tmp_path: Path) -> None:
    here = np.random.default_rng(3).integers(0, 99, (30, 20))
    there = pool.from_numpy(here, name=name, place="node=1")
    assert (there.flatten() == here.flatten()).all() and (there.flatten("F") == here.flatten("F")).all()
    there.tofile(tmp_path / "file")
    here.tofile(tmp_path / "other")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "other").read_bytes()
    assert (np.sort(there, axis=0) == np.sort(here, axis=0)).all()
    there.sort()
    here.sort()
    assert (there.get() == here).all()
    there.remove()


def test_a_long_array_that_comes_here_is_said_once(pool: hanare.Pool, name: str) -> None:
    there = pool.full((3 << 20,), 1.0, name=name, place="node=1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert there.sum() == 3 << 20 and there.mean() == 1 and there.reshape(1024, -1).max(axis=1).sum() == 1024
    with pytest.warns(WholeArrayWarning, match=f"sort brings all 24 MiB of array '{name}' here") as told:
        np.sort(there)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.sort(there)
    with pytest.warns(WholeArrayWarning, match="std brings"):
        np.std(there)
    there.remove()
