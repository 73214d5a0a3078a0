"""Tables that read well on a terminal and in a notebook."""

from __future__ import annotations

import html
from typing import Any, Iterator


class Table:
    """Rows under headings.

    Attributes
    ----------
    headings : tuple of str
        Names of the columns.
    rows : list of tuple
        The values.
    """

    def __init__(self, headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        self.headings, self.rows = headings, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.headings, row)) for row in self.rows)

    def __getitem__(self, which: int) -> dict[str, Any]:
        return dict(zip(self.headings, self.rows[which]))

    def __repr__(self) -> str:
        lines = [self.headings, *([str(value) for value in row] for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        padded = ("  ".join(value.ljust(width) for value, width in zip(line, widths)).rstrip() for line in lines)
        return "\n".join(padded)

    def _repr_html_(self) -> str:
        def line(tag: str, values: Any) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values) + "</tr>"

        return "<table>" + line("th", self.headings) + "".join(line("td", row) for row in self.rows) + "</table>"
