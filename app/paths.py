"""Paths: as people write them, and of the files that come with the code."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path


def short(path: Path | str) -> str:
    """A path with ~ for the home folder, if it is inside."""
    home, whole = os.path.expanduser("~"), str(path)
    for begins in {home, os.path.realpath(home)} - {"/"}:  # a service may have no home
        if f"{whole}/".startswith(f"{begins}/"):
            return f"~{whole.removeprefix(begins)}"
    return whole


def packaged(name: str) -> Path:
    """The directory `static` or `alembic`."""
    inside = Path(str(files("app"))) / name
    return inside if inside.is_dir() else inside.parents[1] / name
