"""Something done in the middle of a save: before, within and after each call that it makes on the pool."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from hanare.checkpoint._generations import Generations
from hanare.pool import Pool, Region

#: What a save does on the pool.
_CALLS: list[tuple[type[Any], str]] = [
    (Generations, "_open"),
    (Generations, "_made"),
    (Generations, "_all"),
    (Region, "add"),
    (Region, "get"),
    (Region, "compare_and_swap"),
    (Pool, "remove"),
]


def at_step(patch: pytest.MonkeyPatch, wanted: int, act: Callable[[], None]) -> Callable[[], int]:
    """Have `act` called at one step of what follows, counted from 0. Returns what tells how many steps there were."""
    steps = 0

    def step() -> None:
        nonlocal steps
        if steps == wanted:
            act()
        steps += 1

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            step()
            result = call(*given, **named)
            step()
            return result

        return called

    put = Region.put

    def put_in_parts(region: Region, offset: int, data: Any) -> None:
        view = memoryview(data).cast("B")
        half = len(view) // 2
        step()
        put(region, offset, view[:half]) if half else None
        step()
        put(region, offset + half, view[half:])
        step()

    for owner, name in _CALLS:
        patch.setattr(owner, name, around(getattr(owner, name)))
    patch.setattr(Region, "put", put_in_parts)
    return lambda: steps
