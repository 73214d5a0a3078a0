"""Peers of the bench that bring processes of their own: ``python -m hanare._peers PEER COUNT LENGTH`` runs each.

It prints one JSON object: seconds by case. What is missing is said in one line, and stands in the row.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

#: The cases, as the bench names them.
LENGTHS = {"8 B": 8, "4 KiB": 4096, "1 MiB": 1 << 20}
GETS = {length: f"get {name}, other node, tcp" for name, length in LENGTHS.items()}
GETS_INTO = {length: f"get {name} into a buffer, other node, tcp" for name, length in LENGTHS.items()}
PUTS = {length: f"put {name}, other node, tcp" for name, length in LENGTHS.items()}
PAGES_GET, PAGES_PUT = ("32 pages of 256 KiB got, other node", "32 pages of 256 KiB put, other node")
WHERE = {"local": "this host", "node=1": "other node, tcp"}
DICT_GETS = {place: f"Dict get 1 KiB, {where}" for place, where in WHERE.items()}
DICT_PUTS = {place: f"Dict put 1 KiB, {where}" for place, where in WHERE.items()}
STORE_LENGTHS = {4096: "4 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB"}
#: Values of each length that a store holds.
STORED = 16
STORE_GETS = {(place, length): f"Store get_into {name}, {where}" for place, where in WHERE.items() for length, name in STORE_LENGTHS.items()}
STORE_PUTS = {(place, length): f"Store put {name}, {where}" for place, where in WHERE.items() for length, name in STORE_LENGTHS.items()}
HANDED_OVER, HANDED_LEN = "64 MiB array to another process", 64 << 20
SUM_NAMES = ("a[::16].sum()", "a[idx], 10000 places", "a.sum()")
#: How many places of an array are read.
PLACE_COUNT = 10_000
#: Seconds that a peer has for all.
_PEER_S = 90

Told = dict[str, float]


def sums(length: int) -> list[str]:
    """The cases of an array of that many bytes."""
    return [f"{name} of {length >> 20} MiB, other node" for name in SUM_NAMES]


class Missing(Exception):
    """Why a peer cannot be measured here."""


class Peer(NamedTuple):
    """A peer: its name in rows, its word, its module and package, and how many times better the pool is to be, by case."""

    name: str
    word: str
    module: str
    package: str
    goals: dict[str, float]


def peers(length: int) -> list[Peer]:
    """All peers; the array that is summed has so many bytes."""
    gets, into, puts = dict.fromkeys(GETS.values(), 1.0), dict.fromkeys(GETS_INTO.values(), 1.0), dict.fromkeys(PUTS.values(), 1.0)
    dictionaries = dict.fromkeys([*DICT_GETS.values(), *DICT_PUTS.values()], 3.0)
    stores = {cases["node=1", length]: 1.0 for cases in (STORE_GETS, STORE_PUTS) for length in STORE_LENGTHS}
    return [
        Peer("mpi4py RMA", "mpi", "mpi4py", "mpi4py", into | puts),
        Peer("Dragon DDict, of one host", "dragon", "dragon", "dragonhpc", gets | puts | dictionaries),
        Peer("Mooncake Store", "mooncake", "mooncake", "mooncake-transfer-engine-non-cuda", {PAGES_GET: 1.0, PAGES_PUT: 1.0} | stores),
        Peer("Ray put and get", "ray", "ray", "ray", {HANDED_OVER: 1.0}),
        Peer("Dask array on a worker", "dask", "distributed", "dask distributed", dict.fromkeys(sums(length), 5.0)),
    ]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def _words(peer: Peer) -> list[str]:
    """What runs a peer. **Errors**: `Missing`."""
    if not _is_there(peer.module):
        raise Missing(f"pip install {peer.package}")
    module = [sys.executable, "-m", "hanare._peers", peer.word]
    if peer.word == "mpi":
        launcher = shutil.which("mpirun")
        if launcher is None:
            raise Missing("there is no mpirun")
        words = [launcher, "-n", "2", "--oversubscribe", "--allow-run-as-root", "--mca", "btl", "self,tcp", "--mca", "osc", "pt2pt"]
        return [*words, *module]
    if peer.word == "dragon":
        launcher = shutil.which("dragon", path=os.path.dirname(sys.executable)) or shutil.which("dragon")
        if launcher is None:
            raise Missing("there is no command dragon")
        # It runs a file, whose folder comes first on the search path: this one has no names of Python's own modules.
        return [launcher, "-s", os.path.join(os.path.dirname(__file__), "__main__.py"), peer.word]
    return module


def measured(peer: Peer, length: int, is_quick: bool) -> Told | str:
    """Run a peer; return its seconds by case, or why there are none."""
    try:
        words = [*_words(peer), str(20 if is_quick else 1000), str(length)]
    except Missing as missing:
        return str(missing)
    # Their launchers look for the interpreter and its commands on the search path.
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PEER_S, env=environment)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_PEER_S} s"
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            told: Told = json.loads(line)
            return told
    last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
    return f"it ended with status {done.returncode}: {last[:200]}"
