"""When those without a place come back: as places become free, and not all at once."""

from __future__ import annotations

from peer.context import ReturnTimes


def test_they_come_back_as_answers_end() -> None:
    turns = ReturnTimes()
    # Four answers of 8 s: one ends every 2 s.
    assert [turns.next(100.0, 8.0, 4) for _ in range(3)] == [2, 4, 6]
    assert turns.next(105.0, 8.0, 4) == 3  # 8 s after the first was told
    assert turns.next(200.0, 8.0, 4) == 2  # all of those have been


def test_nobody_is_told_to_come_at_once_or_in_an_hour() -> None:
    turns = ReturnTimes()
    assert turns.next(0.0, 0.01, 64) == 1
    assert turns.next(0.0, 3600.0, 1) == 30
    assert turns.next(0.0, 3600.0, 1) == 30
