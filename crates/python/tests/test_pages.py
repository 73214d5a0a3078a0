"""Pages of LLM servers in a store, below the interfaces of the servers: what is late, lost or without room is said, and never raised."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

import hanare
from hanare import _node, errors
from hanare._pages import Pages

LENGTH = 5000


def page(key: str) -> bytes:
    """A page whose bytes say which key it is of."""
    return random.Random(key).randbytes(LENGTH)


@pytest.fixture(params=["local", "node=1"])
def pages(nodes: _node.Nodes, name: str, request: Any) -> Iterator[Pages]:
    made = Pages({"socket": nodes.sockets[0], "name": name, "bytes": 2 << 20, "place": request.param})
    yield made
    made.close()
    made.store.destroy()


def test_pages_come_back_and_are_written_once(pages: Pages, nodes: _node.Nodes) -> None:
    keys = [f"key {number}" for number in range(100)]
    assert pages.keep(keys, [page(key) for key in keys]) == [True] * 100
    assert pages.keep(keys[:3], [bytes(LENGTH)] * 3) == [True] * 3, "a page that is there is not written again"
    other = Pages({"socket": nodes.sockets[1], "name": pages.store.name})
    assert other.prefix([*keys, "none", keys[0]]) == 100 and other.exists(["none", keys[5]]) == [False, True]
    into = [bytearray(LENGTH + 100) for _ in range(101)]
    assert other.load([*keys, "none"], into) == [LENGTH] * 100 + [0]
    assert all(buffer[:LENGTH] == page(key) for key, buffer in zip(keys, into))
    with pytest.raises(ValueError):
        other.load(keys[:1], [bytearray(LENGTH - 1)])
    assert other.remove(keys[0]) and not pages.remove(keys[0]) and pages.prefix(keys) == 0
    assert pages.counts()["stored"] == 100 and other.counts() == {"hits": 100, "misses": 1, "stored": 0, "full": 0, "errors": 0}
    assert pages.keep([], []) == [] and pages.load([], []) == []
    other.close()


def test_pins_hold_while_others_leave(pages: Pages) -> None:
    assert pages.keep(["pinned"], [page("pinned")]) == [True] and pages.pin("pinned", 600) and not pages.pin("none", 600)
    keys = [f"key {number}" for number in range(1000)]
    assert pages.keep(keys, [page(key) for key in keys]) == [True] * 1000
    there = pages.exists(["pinned", *keys])
    assert there[0] and 100 < sum(there) < 900
    assert pages.unpin("pinned") and not pages.unpin("none")


def test_a_full_store_refuses_at_once(nodes: _node.Nodes, name: str) -> None:
    pages = Pages({"socket": nodes.sockets[0], "name": name, "bytes": 1 << 20, "evict": "ttl"})
    keys = [f"key {number}" for number in range(400)]
    done = pages.keep(keys, [page(key) for key in keys])
    # Keys without an end stay where those leave first that end first.
    assert 100 < sum(done) < 250 and done == pages.exists(keys)
    assert pages.counts()["full"] == 400 - sum(done) and pages.counts()["stored"] == sum(done)
    pages.close()
    pages.store.destroy()


def test_pages_of_a_stopped_or_lost_node_are_absent() -> None:
    nodes = _node.Nodes(2, "64MiB")
    pages = Pages({"socket": nodes.sockets[0], "bytes": 1 << 20, "place": "node=1", "deadline": 0.2})
    assert pages.keep(["a"], [page("a")]) == [True]
    nodes.processes[1].send_signal(19)
    # Each of its threads stops at its own time.
    os.waitpid(nodes.processes[1].pid, os.WUNTRACED)
    into = bytearray(LENGTH)
    assert pages.exists(["a"]) == [False] and pages.prefix(["a"]) == 0 and pages.load(["a"], [into]) == [0]
    assert into == bytes(LENGTH), "what comes late is not written into the buffer"
    nodes.processes[1].send_signal(18)
    # From here on each call ends with an error, and none with its deadline.
    pages.deadline = 20.0
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    assert pages.exists(["a"]) == [False] and pages.load(["a"], [into]) == [0] and pages.keep(["b"], [page("b")]) == [False]
    assert not pages.pin("a", 1) and not pages.unpin("a") and not pages.remove("a") and pages.counts()["errors"] >= 6
    pages.close()
    nodes.stop()


def test_settings_that_make_no_sense_are_refused(nodes: _node.Nodes, name: str) -> None:
    for odd in ({"colour": 1}, {"deadline": 0}, {"deadline": float("nan")}, {"threads": 0}, {"threads": 65}):
        with pytest.raises(ValueError):
            Pages({"socket": nodes.sockets[0], "name": name, **odd})
    for odd in ({"bytes": 1}, {"evict": "fifo"}, {"place": "moon"}, {"copies": 9}):
        with pytest.raises(errors.Error):
            Pages({"socket": nodes.sockets[0], "name": name, **odd})
    hanare.connect(nodes.sockets[0]).create(name, 4096)
    with pytest.raises(errors.BadAttributes):
        Pages({"socket": nodes.sockets[0], "name": name})
    hanare.connect(nodes.sockets[0]).remove(name)
