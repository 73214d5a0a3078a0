"""A picture of the pool: where regions lie, who uses them, what moved."""

from __future__ import annotations

import json
import math
from typing import Any

from .pool import Pool, connect

#: Regions that have a colour of their own, the longest first; the others are one part of their node's bar.
_REGION_COUNT = 9
_OTHERS = "#b8b8b8"
_PAGE_LEN = 4096


def _text(name: str) -> str:
    """A name as a label: between two `$` Matplotlib would read a formula."""
    return name.replace("$", r"\$")


def _bytes(length: float, _: Any = None) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if length < 1024:
            return f"{length:.3g} {unit}"
        length /= 1024
    return f"{length:.3g} TiB"


def plot(pool: Pool | None = None) -> Any:
    """Draw what the pool holds: where regions lie, who uses them, what moved.

    Parameters
    ----------
    pool : Pool, optional
        The pool; by default that of `connect`.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels, a bar for each node: bytes of regions and what is free; programs that are attached, and those that map regions by
        pages; bytes that commands touched since the node's start, for programs of its own host and of others, and bytes of pages that
        were fetched. A notebook shows it; ``figure.savefig(path)`` writes it.

    Raises
    ------
    ImportError
        Without matplotlib (``pip install hanare[plot]``).

    Notes
    -----
    **Cost**: one message each way to each node. Programs of a node's host reach mapped bytes without it: that is in no bar.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
    except ImportError as missing:
        raise ImportError("hanare.plot needs matplotlib: pip install hanare[plot]") from missing
    pool = pool if pool is not None else connect()
    nodes = sorted(json.loads(pool._native.status())["nodes"], key=lambda node: int(node["node"]))
    regions = sorted(json.loads(pool._native.list()), key=lambda region: -int(region["len"]))
    seen = {number: told for number, told in json.loads(pool._native.look()) if told is not None}
    rows = {int(node["node"]): row for row, node in enumerate(nodes)}
    figure = Figure(figsize=(11, 2.6 + 1.5 * len(nodes)), layout="constrained")
    lie, use, moved = figure.subplots(3, 1, sharey=True)
    # A region has one colour in all panels.
    colours = {region["name"]: f"C{number}" for number, region in enumerate(regions[:_REGION_COUNT])}
    _draw_regions(lie, nodes, regions, rows, colours)
    _draw_programs(use, rows, seen, colours)
    _draw_moved(moved, rows, seen)
    for axes in (lie, moved):
        # Powers of two, at most eight of them.
        axes.xaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(max(axes.get_xlim()[1], 8) / 8))))
        axes.xaxis.set_major_formatter(FuncFormatter(_bytes))
    use.xaxis.set_major_locator(MaxNLocator(integer=True))
    names = [_text(f"{node['name'] or 'node'} ({node['node']})") + ("" if node["alive"] else "\nlost") for node in nodes]
    for axes in (lie, use, moved):
        axes.set_yticks(range(len(nodes)), names)
        axes.set_ylim(len(nodes) - 0.4, -0.6)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    return figure


def _draw_regions(axes: Any, nodes: list[Any], regions: list[Any], rows: dict[int, int], colours: dict[str, str]) -> None:
    axes.set_title("Where regions lie", loc="left")
    for node in nodes:
        label = "lent" if node is nodes[0] else None
        axes.barh(rows[int(node["node"])], node["memory"]["lent"], 0.62, facecolor="none", edgecolor="#404040", linewidth=1, label=label)
    ends = [0] * len(nodes)
    for number, region in enumerate(regions):
        colour = colours.get(region["name"], _OTHERS)
        label = _text(region["name"]) if colour != _OTHERS else "others" if number == _REGION_COUNT else None
        for node, length in region["nodes"]:
            if int(node) in rows:
                row = rows[int(node)]
                axes.barh(row, length, 0.62, left=ends[row], color=colour, edgecolor="white", linewidth=0.5, label=label)
                ends[row], label = ends[row] + length, None


def _draw_programs(axes: Any, rows: dict[int, int], seen: dict[int, Any], colours: dict[str, str]) -> None:
    axes.set_title("Who uses them", loc="left")
    mapped: dict[str, list[int]] = {}
    for node, told in seen.items():
        row = rows[node]
        processes = sorted({program["process"] for program in told["programs"]})
        label = "programs attached" if node == min(seen) else None
        axes.barh(row - 0.16, len(processes), 0.3, color="#606060", label=label)
        listed = ", ".join(map(str, processes[:6])) + (" ..." if len(processes) > 6 else "")
        axes.annotate(f"process {listed}" if processes else "none", (len(processes), row - 0.16), (4, 0), textcoords="offset points", va="center", fontsize=8)
        for page in told["pages"]:
            if page["programs"]:
                mapped.setdefault(page["name"] or "(another user's)", [0] * len(rows))[row] = page["programs"]
    for number, (name, counts) in enumerate(mapped.items()):
        before = [sum(each[row] for each in list(mapped.values())[:number]) for row in range(len(rows))]
        axes.barh([row + 0.16 for row in range(len(rows))], counts, 0.3, left=before, color=colours.get(name, _OTHERS), label=_text(f"map {name}"))


def _draw_moved(axes: Any, rows: dict[int, int], seen: dict[int, Any]) -> None:
    axes.set_title("What moved, since the node's start", loc="left")
    parts: dict[str, list[float]] = {}
    for node, told in seen.items():
        for command in told["counts"]["commands"]:
            whose = "own host" if command["from"] == "OwnHost" else "other hosts"
            parts.setdefault(f"{command['kind']}, of {whose}", [0.0] * len(rows))[rows[node]] += command["bytes"]
        fetched = sum(page["fetched"] for page in told["pages"])
        parts.setdefault("pages fetched", [0.0] * len(rows))[rows[node]] += fetched * _PAGE_LEN
    ends, colour = [0.0] * len(rows), 0
    for name, lengths in sorted(parts.items(), key=lambda part: -sum(part[1])):
        if not any(lengths):
            continue
        is_named = colour < _REGION_COUNT
        label = name if is_named else "other commands" if colour == _REGION_COUNT else None
        axes.barh(range(len(rows)), lengths, 0.62, left=ends, color=f"C{colour}" if is_named else _OTHERS, label=label)
        ends, colour = [end + length for end, length in zip(ends, lengths)], colour + 1
