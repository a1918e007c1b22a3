"""Who a peer lets in: by keys that are set, by named ones, or everybody; and their tokens of today.

Those outlast restarts, midnight, and a disk that fails.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from peer import keys
from peer.keys import KeyRing, KeyUsage, key_file, seconds_to_midnight


def test_set_and_named_keys(tmp_path: Path) -> None:
    made = key_file(tmp_path).add("anna", tokens_a_day=1000, answers=2, share=3)
    ring = KeyRing(("a-key-that-is-set",), key_file(tmp_path))
    found = ring.find(made)
    assert (found.name, found.tokens_a_day, found.answers, found.share) == ("anna", 1000, 2, 3)
    given = ring.find("a-key-that-is-set")
    assert (given.name, given.tokens_a_day) == ("set 1", None)
    assert ring.find("another") is None


def test_changes_hold_without_a_restart(tmp_path: Path) -> None:
    ring, named = KeyRing((), key_file(tmp_path)), key_file(tmp_path)
    assert ring.open
    anna = named.add("anna")
    assert ring.refresh()
    assert not ring.open
    held = ring.find(anna)
    assert held is not None
    named.revoke("anna")
    again = named.add("anna", answers=1)
    assert ring.refresh()
    assert ring.current(held) is None  # another key of the same name
    assert ring.find(again) is not None
    named.revoke("anna")
    ring.refresh()
    assert not ring.open  # revoking the last key lets nobody in


async def test_a_restart_gives_nobody_another_day_but_midnight_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / keys.USAGE
    used = KeyUsage(path)
    used.add("anna", 3)
    used.add("anna", 4)
    used.add("bela", 1)
    await used.keep()
    again = KeyUsage(path)
    assert (again.of("anna"), again.of("bela"), again.of("clara")) == (7, 1, 0)
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
        failing.setattr("peer.keys.write_whole", Mock(side_effect=OSError(28, "No space")))
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
