"""The page on Python as a notebook: `python notebook.py write` makes ``docs/python.ipynb``, `python notebook.py run FILE` runs one's cells."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def notebook(page: str) -> str:
    """Make a notebook of a page: its programs are cells, and so is the text between them.

    A notebook has a loop of `asyncio` that runs: tasks are awaited there.
    """
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"```python\n(.*?)```\n?", page, flags=re.DOTALL)):
        text = part.strip("\n")
        if number % 2:
            text = re.sub(r"asyncio\.run\((\w+\(\))\)", r"await \1", text)
            cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)})
        elif text:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


async def run(cells: list[dict[str, Any]]) -> None:
    """Run the programs of a notebook one after another, in one loop and with one set of names, as a kernel does."""
    # Programs that are made by fork find its functions by their module.
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            program = compile("".join(cell["source"]), f"<cell {number}>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            begun = eval(program, vars(main))
            if inspect.isawaitable(begun):
                await begun


if __name__ == "__main__":
    if sys.argv[1] == "write":
        PAGE.with_suffix(".ipynb").write_text(notebook(PAGE.read_text()))
    else:
        asyncio.run(run(json.loads(Path(sys.argv[2]).read_text())["cells"]))
