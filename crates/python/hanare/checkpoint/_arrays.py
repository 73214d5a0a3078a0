"""Checkpoints of NumPy arrays by names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._terms import check_dtype, from_attributes, to_attributes
from .._trust import Trusted
from ..errors import BadAttributes, BadUse
from ..pool import Pool
from ._generations import Generations, why_not
from ._index import ARRAYS, Index
from ._shards import Bytes, Damaged, Shard, region_len

_Array = npt.NDArray[Any]


def _plain(name: Any, value: Any) -> _Array:
    """Return an array whose bytes lie one after another, in the order of C or of Fortran."""
    if not isinstance(name, str):
        raise TypeError(f"arrays of a checkpoint have texts as names, not {name!r}")
    array = np.asarray(value)
    try:
        check_dtype(array.dtype)
    except TypeError as odd:
        raise TypeError(f"'{name}': {odd}") from None
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)


def _is_fortran(array: _Array) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _bytes(array: _Array) -> Bytes:
    """Return an array's bytes where they are."""
    rows = array.T if _is_fortran(array) else array
    return rows.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _terms(name: str, array: _Array) -> dict[str, str]:
    terms = to_attributes(array.dtype, array.shape, _is_fortran(array))
    return {"name": name, **{term: value.decode() for term, value in terms.items()}}


def save(
    pool: Pool | None,
    name: str,
    arrays: Mapping[str, npt.ArrayLike],
    *,
    copies: int = 2,
    keep: int = 2,
    place: str = "local",
    mode: int = 0o600,
    trust: Trusted = None,
) -> int:
    """Save arrays by names as the next generation of a checkpoint.

    Parameters
    ----------
    pool : Pool or None
        The pool; ``None`` for that of `connect`.
    name : str
        The checkpoint's name.
    arrays : mapping of str to array_like
        Any arrays whose elements are bytes, of any shape and order; objects are refused.
    copies : int
        Nodes that hold each byte, 1 to 3. From 2 on a checkpoint outlives a node.
    keep : int
        Generations that stay, this one among them.
    place : str
        Where the bytes go, as for `Pool.array`.
    mode : int
        Who may read and write, as a file's mode bits.
    trust : int, str, or several of them, optional
        Users whose checkpoint of that name is gone on with.

    Returns
    -------
    int
        The generation's number.

    Raises
    ------
    Superseded
        Another program saved a newer generation meanwhile.
    NotTrusted
        Another user made a checkpoint of that name.
    BadAttributes
        A region of that name is no checkpoint.
    PoolFull, QuotaExceeded, BadPlacement, NodeLost, NoCoordinator
        What was saved before stays the newest.

    Notes
    -----
    **Cost**: the bytes of the arrays go to each of the nodes that hold them; beside them some 15 messages. blake2b reads them once before.
    """
    if keep < 1:
        raise ValueError("at least one generation is kept")
    plain = {key: _plain(key, value) for key, value in arrays.items()}
    generations = Generations(pool, name, trust)
    generation = generations.begin(place, mode, copies)
    try:
        length = region_len(array.nbytes for array in plain.values())
        part = generations.part(generation, 0, length, place, mode, copies)
        shards = [part.add(_bytes(array)) for array in plain.values()]
        index = Index(ARRAYS, shards, [_terms(key, array) for key, array in plain.items()])
        generations.commit(generation, index, place, mode, copies, keep)
    except Exception:
        generations.give_up(generation)
        raise
    return generation


def load(pool: Pool | None, name: str, *, trust: Trusted = None) -> dict[str, _Array]:
    """Load the newest generation of a checkpoint that is whole: every byte of it is as it was saved.

    Parameters
    ----------
    pool : Pool or None
        The pool; ``None`` for that of `connect`.
    name : str
        The checkpoint's name.
    trust : int, str, or several of them, optional
        Users whose checkpoint is loaded, beside this program's own.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays in this program's memory, in the order in which they were saved.

    Raises
    ------
    NoCheckpoint
        There is none, or nothing was saved to it yet.
    DamagedCheckpoint
        No generation is whole.
    NotTrusted
        Another user made it.

    Warns
    -----
    OlderCheckpointWarning
        A newer generation is damaged, and an older one was loaded. The text says what is wrong.
    """
    generations = Generations(pool, name, trust)
    loaded: dict[str, _Array] = {}

    def read(number: int) -> None:
        loaded.clear()
        loaded.update(_read(generations, number))

    generations.choose(lambda number: why_not(lambda: read(number)))
    return loaded


def _read(generations: Generations, number: int) -> dict[str, _Array]:
    index = generations.index(number)
    if index.kind != ARRAYS:
        raise BadUse(f"checkpoint '{generations.name}' has no arrays by names: load it by hanare.checkpoint.StorageReader")
    if not isinstance(index.terms, list) or len(index.terms) != len(index.shards):
        raise Damaged("its index says of each shard no array")
    reader = generations.reader(number, index.shards)
    return {terms["name"]: _array(terms, shard, reader.read(shard)) for terms, shard in zip(map(_checked, index.terms), index.shards, strict=True)}


def _checked(terms: Any) -> dict[str, str]:
    if not isinstance(terms, dict) or "name" not in terms or not all(isinstance(value, str) for value in terms.values()):
        raise Damaged("its index says of a shard what no array is")
    return terms


def _array(terms: dict[str, str], shard: Shard, data: Bytes) -> _Array:
    """Make the array of a shard's bytes."""
    attributes = {term: value.encode() for term, value in terms.items() if term != "name"}
    try:
        dtype, shape, fortran_order = from_attributes(terms["name"], attributes, shard.nbytes)
    except BadAttributes as odd:
        raise Damaged(str(odd)) from odd
    if int(np.prod(shape, dtype=object)) * dtype.itemsize != shard.nbytes:
        raise Damaged(f"array '{terms['name']}' has not the bytes that its index says")
    return np.ndarray(shape, dtype, data, order="F" if fortran_order else "C")
