"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.paths import short


def test_the_home_folder_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert short(tmp_path / "home" / "Notes") == "~/Notes"
    assert short(tmp_path / "real" / "Notes") == "~/Notes"
    assert short(tmp_path / "home") == "~"
    assert short(tmp_path / "home and garden") == f"{tmp_path}/home and garden"
    monkeypatch.setenv("HOME", "/")
    assert short("/srv/notes") == "/srv/notes"
