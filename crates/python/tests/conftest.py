"""Pools of two nodes on this machine, which treat each other as two hosts would."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

import hanare
from hanare import _node

settings.register_profile("tests", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("nightly", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

_numbers = itertools.count()


@pytest.fixture(scope="session")
def nodes() -> Iterator[_node.Nodes]:
    """Two nodes of 192 MiB each."""
    started = _node.Nodes(2, "192MiB")
    os.environ["HANARE_NODE"] = started.sockets[0]
    yield started
    started.stop()


@pytest.fixture(scope="session")
def pool(nodes: _node.Nodes) -> hanare.Pool:
    """The pool as the first host sees it."""
    return hanare.connect(nodes.sockets[0])


@pytest.fixture(scope="session")
def beside(nodes: _node.Nodes, pool: hanare.Pool) -> hanare.Pool:
    """The pool as the second host sees it."""
    return hanare.connect(nodes.sockets[1])


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"test.{next(_numbers)}"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parents[3]


def as_user(uid: int, work: Callable[..., Any], *given: Any) -> Any:
    """Do something as another user, in a child, and return what it returns, or raise what it raises. Skips where this user cannot be another."""
    if os.geteuid() != 0:
        pytest.skip("only root may act as other users")
    here, there = multiprocessing.get_context("fork").Pipe()

    def child() -> None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        try:
            there.send((True, work(*given)))
        except Exception as error:
            there.send((False, error))
        except BaseException as failed:
            # Pytest's own cannot be pickled.
            there.send((False, AssertionError(str(failed))))

    program = multiprocessing.get_context("fork").Process(target=child)
    program.start()
    there.close()
    try:
        is_done, outcome = here.recv()
    except EOFError:
        raise AssertionError("the other user's program ended without a word") from None
    finally:
        program.join()
    if not is_done:
        raise outcome
    return outcome
