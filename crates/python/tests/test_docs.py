"""The book's page on Python runs from top to bottom; the stubs say what the module has; types check."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import hanare
import notebook
from hanare import _hanare


def test_the_page_on_python_runs(repository: Path) -> None:
    page = (repository / "docs/python.md").read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    environment = {**os.environ, "HANARE_NODE": "/nonexistent/node.sock"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000.0\nArray\n") and "2 were started" in done.stderr


def test_the_notebook_is_the_page_and_runs(repository: Path) -> None:
    file = repository / "docs/python.ipynb"
    assert file.read_text() == notebook.notebook(notebook.PAGE.read_text()), "`python crates/python/tests/notebook.py write` makes it anew"
    environment = {**os.environ, "HANARE_NODE": "/nonexistent/node.sock"}
    words = [sys.executable, notebook.__file__, "run", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000.0\nArray\n") and "2 were started" in done.stderr


def test_the_stubs_say_what_the_module_has(repository: Path) -> None:
    stubs = ast.parse((repository / "crates/python/hanare/_hanare.pyi").read_text())
    told: dict[str, set[str]] = {}
    for node in stubs.body:
        if isinstance(node, ast.ClassDef):
            told[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            told[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            told[node.target.id] = set()
    here = {name for name in vars(_hanare) if not name.startswith("_")}
    assert here == set(told)
    for name, members in told.items():
        if inspect.isclass(getattr(_hanare, name)):
            has = {member for member in vars(getattr(_hanare, name)) if not member.startswith("_")}
            assert has == {member for member in members if not member.startswith("_")}, name


def test_types_check(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", "target/python/mypy"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_public_says_what_it_does() -> None:
    missing = []
    for name in hanare.__all__:
        thing = getattr(hanare, name)
        if not inspect.isclass(thing):
            continue
        missing += [name] * (not thing.__doc__)
        for member, value in vars(thing).items():
            function = value.fget if isinstance(value, property) else value
            if not member.startswith("_") and inspect.isfunction(function) and not function.__doc__:
                missing.append(f"{name}.{member}")
    assert not missing
