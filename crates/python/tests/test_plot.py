"""The picture of the pool shows its nodes, regions, programs, and what moved."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hanare

pytest.importorskip("matplotlib")


def test_the_picture_shows_regions_programs_and_bytes(pool: hanare.Pool, beside: hanare.Pool, name: str, tmp_path: Path) -> None:
    far = pool.zeros(1 << 20, "f8", name=name, place="node=1")
    spread = pool.zeros(1 << 18, "f8", name=f"{name}.spread", place="interleave=64KiB")
    mapped = [each.open(f"{name}.spread", mapped=False).map() for each in (pool, beside)]
    far[...] = np.ones(1 << 20)
    assert mapped[0].sum() == mapped[1].sum() == 0
    figure = hanare.plot(pool)
    lie, use, moved = figure.axes
    assert [label.get_text() for label in lie.get_yticklabels()] == ["node0 (0)", "node1 (1)"]
    assert {"lent", name, f"{name}.spread"} <= set(lie.get_legend_handles_labels()[1])
    drawn = {bar.get_width() for bar in lie.patches}
    assert {192 << 20, 8 << 20, 1 << 20} <= drawn, "what is lent, and the bytes of both regions on each node"
    assert {"programs attached", f"map {name}.spread"} <= set(use.get_legend_handles_labels()[1])
    assert any(label.startswith("put, of ") for label in moved.get_legend_handles_labels()[1])
    figure.savefig(tmp_path / "pool.png")
    assert (tmp_path / "pool.png").read_bytes()[:4] == b"\x89PNG"
    del mapped
    far.remove()
    spread.remove()


def test_names_are_no_formulas(pool: hanare.Pool, name: str, tmp_path: Path) -> None:
    names = [f"{name}$\\frac{{$", f"{name}$x^2$", f"{name}\\$_a$"]
    made = [pool.zeros(1 << 20, "f8", name=each) for each in names]
    figure = hanare.plot(pool)
    figure.savefig(tmp_path / "pool.png")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {each.replace("$", r"\$") for each in names} <= set(labels)
    [each.remove() for each in made]


def test_without_matplotlib_it_says_what_to_install(pool: hanare.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install"):
        hanare.plot(pool)
