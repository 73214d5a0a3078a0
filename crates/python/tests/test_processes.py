"""Several programs: references by pickle, fork and spawn, programs that are killed, nodes that end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import hanare
from hanare import errors


def run(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def add_one(array: Any, at: int) -> float:
    array[at] += 1
    return float(np.sum(array))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("place", ["local", "node=1"])
def test_processes_share_an_array(pool: hanare.Pool, name: str, method: str, place: str) -> None:
    shared = pool.zeros(16, name=name, place=place)
    with multiprocessing.get_context(method).Pool(2) as workers:
        assert min(workers.starmap(add_one, [(shared, at) for at in range(16)])) >= 1
    assert np.asarray(shared).tolist() == [1.0] * 16
    shared.remove()


def test_a_pickle_is_a_reference_of_any_length(pool: hanare.Pool, name: str) -> None:
    large = pool.zeros((1 << 20,), name=name)
    large[7] = 3
    assert len(pickle.dumps(large)) < 1000
    view = pickle.loads(pickle.dumps(large[5:9:2]))
    assert np.shares_memory(view, large) and view.tolist() == [0, 3]
    distant = pool.open(name, mapped=False)
    copied = pickle.loads(pickle.dumps(distant[5:9:2]))
    assert isinstance(copied, hanare.Array) and copied.tolist() == [0, 3]
    kept = pickle.dumps(large)
    large.remove()
    pool.zeros(1, name=name)
    with pytest.raises(errors.UnknownRegion):
        pickle.loads(kept)
    pool.remove(name)


def test_a_child_made_by_fork_attaches_anew(pool: hanare.Pool, name: str) -> None:
    near, far = pool.zeros(4, name=name), pool.zeros(4, name=name + "f", place="node=1")
    lock = pool.lock(name)
    far[0] = 5
    child = os.fork()
    if child == 0:
        status = 1
        try:
            near[1], far[1] = far[0], 6
            with lock:
                far += 1
            del near, far
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert near.tolist() == [0, 5, 0, 0] and far.tolist() == [6, 7, 1, 1]
    with lock:
        far += 1
    assert far[0] == 7
    near.remove(), far.remove()


def test_a_program_alone_has_a_node_as_long_as_it_runs() -> None:
    program = """
import hanare, os
pool = hanare.connect(memory="64MiB")
a = pool.from_numpy([1.0, 2.0], name="a")
print(a.sum(), pool.info().rows[0][3], os.environ["HANARE_NODE"], pool is hanare.connect())
print(pool._nodes.processes[0].pid)
"""
    told = run(program, HANARE_NODE="/nonexistent/node.sock")
    assert "3.0 67108864 @hanare-" in told and "True" in told
    assert "hanare: no node on this host; one was started that lends 64 MiB until this program ends" in told
    assert_ends(int(told.splitlines()[1]))


def assert_ends(pid: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} did not end")


def test_a_killed_program_leaves_no_node() -> None:
    program = """
import hanare, time, threading
def start():
    global pool
    pool = hanare.connect(memory="64MiB")
thread = threading.Thread(target=start); thread.start(); thread.join()
time.sleep(0.2)
pool.zeros(5)
print(pool._nodes.processes[0].pid, flush=True)
time.sleep(60)
"""
    environment = {**os.environ, "HANARE_NODE": "/nonexistent/node.sock"}
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    node = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    assert_ends(node)


def test_no_node_and_none_to_be_started_is_told() -> None:
    with pytest.raises(errors.NoNode):
        hanare.connect("/nonexistent/node.sock")


def test_a_killed_holder_is_told_of(pool: hanare.Pool, name: str) -> None:
    program = f"""
import hanare, os, signal
lock = hanare.connect().lock({name!r})
lock.acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    with pool.lock(name) as lock:
        assert lock.was_abandoned


LOST = """
import hanare, numpy as np, os, signal
from hanare import _node, errors
nodes = _node.Nodes(3, "64MiB")
pool = hanare.connect(nodes.sockets[1])
near, far = pool.full(50_000, 1.5, name="near"), pool.full(50_000, 2.5, name="far", place="node=2")
os.kill(nodes.processes[2].pid, signal.SIGKILL)
for work in (far.get, far.sum, lambda: far[[1, 2]], lambda: far.__setitem__(0, 1), lambda: far.__iadd__(1), lambda: far[3]):
    try:
        work()
        raise SystemExit("what is lost was read")
    except (errors.NodeLost, errors.RegionLost, errors.Broken, errors.GrantRefused) as error:
        assert isinstance(error, hanare.Error), error
os.kill(nodes.processes[1].pid, signal.SIGKILL)
nodes.processes[1].wait()
assert near.sum() == 75_000, "memory of this host stays"
near[:] = 4
assert near[::7].max() == 4
try:
    pool.open("near")
    raise SystemExit("a node that is gone answered")
except hanare.Error as error:
    print("told", type(error).__name__)
"""


def test_nodes_that_are_lost_are_exceptions() -> None:
    assert run(LOST).startswith("told ")
