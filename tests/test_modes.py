"""Only the rules know a mode by its name: everything else asks for its properties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RULES = ROOT / "dragon" / "protocol" / "rules"
ASKS = re.compile(r"\b(?:is|is not|==|!=|in|not in|case) [({]?Mode\.[A-Z]")
ROOMS = [
    path
    for package in ("dragon", "app", "peer", "cli")
    for path in sorted((ROOT / package).rglob("*.py"))
    if RULES not in path.parents and path != ROOT / "dragon" / "sampling" / "params.py"
]


@pytest.mark.parametrize("package", ["dragon", "app", "peer", "cli"])
def test_no_room_asks_which_mode_it_is(package: str) -> None:
    asking = [
        str(path.relative_to(ROOT))
        for path in ROOMS
        if path.is_relative_to(ROOT / package) and ASKS.search(path.read_text(encoding="utf-8"))
    ]
    assert asking == []
