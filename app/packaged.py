"""Locates the data files that are beside `app` in a checkout and inside it once installed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def packaged(name: str) -> Path:
    """The directory `static` or `alembic`."""
    inside = Path(str(files("app"))) / name
    return inside if inside.is_dir() else inside.parents[1] / name
