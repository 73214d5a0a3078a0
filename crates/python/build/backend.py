"""The build of the Python package: maturin's, with the command `hanare` and its models built before it and put among the wheel's programs.

`HANARE_PROFILE` names Cargo's profile (by default `release`); `HANARE_BINARY` a command that was built before, with
`hanare-models` beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[3]
PROFILE = os.environ.get("HANARE_PROFILE", "release")

#: The folder that `pyproject.toml` names to maturin: what lies in its `scripts` is installed as programs.
DATA = ROOT / "target" / "python" / "data"
(DATA / "scripts").mkdir(parents=True, exist_ok=True)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def _command() -> Path:
    told = os.environ.get("HANARE_BINARY")
    if told:
        return Path(told)
    subprocess.run(["cargo", "build", "--profile", PROFILE, "-p", "hanare-cli", "-p", "hanare-models"], cwd=ROOT, check=True)
    described = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    folder = "debug" if PROFILE == "dev" else PROFILE
    return Path(json.loads(described.stdout)["target_directory"]) / folder / "hanare"


def _put_command() -> None:
    command = _command()
    for built in (command, command.with_name("hanare-models")):
        program = DATA / "scripts" / built.name
        program.unlink(missing_ok=True)
        # Debug lines would be most of the wheel.
        if shutil.which("strip") is None or subprocess.run(["strip", "-o", program, built]).returncode != 0:
            shutil.copy2(built, program)
        program.chmod(0o755)


def _with_arguments(compatibility: str) -> None:
    given = os.environ.get("MATURIN_PEP517_ARGS", "")
    os.environ["MATURIN_PEP517_ARGS"] = f"--profile {PROFILE} --compatibility {compatibility} {given}".strip()


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """See PEP 517."""
    _put_command()
    # The tag says on which systems it runs: maturin looks which C library and which other libraries the module asks for.
    _with_arguments("pypi")
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """See PEP 660."""
    _put_command()
    _with_arguments("off")
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """See PEP 517."""
    return maturin.build_sdist(sdist_directory, config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
