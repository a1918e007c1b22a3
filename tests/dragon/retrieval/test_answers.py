"""Which of the two a model gets: what is set, or else what it says itself."""

from __future__ import annotations

import pytest

from dragon.retrieval.prompt_rows import Answers


@pytest.mark.parametrize(
    ("setting", "quotes", "expected"),
    [
        (None, True, Answers.QUOTES),
        (None, False, Answers.WORDS),
        ("words", True, Answers.WORDS),
        ("quotes", False, Answers.QUOTES),
    ],
)
def test_the_setting_rules_and_else_the_model(
    setting: str | None, expected: Answers, *, quotes: bool
) -> None:
    assert Answers.of(setting, quotes=quotes) is expected


def test_a_text_to_continue_keeps_rows_and_so_do_quotes() -> None:
    assert Answers.WORDS.on(raw=False) is Answers.WORDS
    assert Answers.WORDS.on(raw=True) is Answers.ROWS
    for raw in (False, True):
        assert Answers.QUOTES.on(raw=raw) is Answers.QUOTES
        assert Answers.ROWS.on(raw=raw) is Answers.ROWS


def test_what_suits_each() -> None:
    assert [each.passages for each in Answers] == [1, 2, 5, 2]
