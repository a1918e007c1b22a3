"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def short(path: Path | str) -> str:
    """A path with ~ for the home folder, if it is inside."""
    home, whole = os.path.expanduser("~"), str(path)
    for begins in {home, os.path.realpath(home)} - {"/"}:  # a service may have no home
        if f"{whole}/".startswith(f"{begins}/"):
            return f"~{whole.removeprefix(begins)}"
    return whole
