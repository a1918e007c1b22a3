"""Tokens of today, over restarts, midnight, and a disk that fails."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from peer import keys
from peer.keys import KeyUsage, seconds_to_midnight


async def test_a_restart_gives_nobody_another_day(tmp_path: Path) -> None:
    path = tmp_path / "data" / keys.USAGE
    used = KeyUsage(path)
    used.add("anna", 3)
    used.add("anna", 4)
    used.add("bela", 1)
    await used.keep()
    again = KeyUsage(path)
    assert (again.of("anna"), again.of("bela"), again.of("clara")) == (7, 1, 0)


async def test_a_new_day_begins_at_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / keys.USAGE
    used = KeyUsage(path)
    used.add("anna", 3)
    await used.keep()
    monkeypatch.setattr("peer.keys._today", lambda: "2040-01-01")
    assert used.of("anna") == 0
    assert KeyUsage(path).of("anna") == 0
    used.add("anna", 1)
    await used.keep()
    assert KeyUsage(path).of("anna") == 1


async def test_what_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / keys.USAGE
    used = KeyUsage(path)
    used.add("anna", 3)
    with monkeypatch.context() as failing:

        def full(path: Path, text: str) -> None:
            raise OSError(28, "No space left on device")

        failing.setattr("peer.keys.write_whole", full)
        await used.keep()
    assert "No space" in caplog.text
    assert used.of("anna") == 3
    await used.keep()
    assert KeyUsage(path).of("anna") == 3


@pytest.mark.parametrize("damaged", ["{", "[]", '{"day": 1}', '{"day": "x", "tokens": 1}'])
def test_a_damaged_file_is_counted_anew(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / keys.USAGE
    path.write_text(damaged)
    assert KeyUsage(path).of("anna") == 0


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (datetime(2026, 3, 1, 0, 0, 0, tzinfo=UTC), 24 * 60 * 60),
        (datetime(2026, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC), 2),
        (datetime(2026, 3, 1, 23, 59, 59, 999_999, tzinfo=UTC), 1),
    ],
)
def test_the_day_ends_at_midnight(now: datetime, left: int) -> None:
    assert seconds_to_midnight(now) == left
