"""Which words may be misspelt, what they may stand for, and that English ones stay."""

from __future__ import annotations

import pytest

from dragon.retrieval.lexical import corrected, doubtful, slips


def test_short_words_names_and_codes_are_not_doubted() -> None:
    asked = "Does Abernathy know if plot B1234 of café owners isn't the gaet's, or the gate?"
    assert doubtful(asked) == ["does", "know", "plot", "owners", "gate"]
    assert doubtful("  Fliter?") == ["fliter"]
    assert doubtful("") == []


def test_what_nobody_writes_costs_nothing() -> None:
    """The words one slip away from 4,000 letters take a gigabyte."""
    assert doubtful(f"Where is the {'ab' * 2000}?") == ["where"]
    letters = "abcdefghijklmnopqrst"
    many = [f"{a}{b}{c}{c}" for a in letters for b in letters for c in letters]
    assert doubtful(" ".join(many)) == many[:64]


@pytest.mark.parametrize("word", ["gate", "gaet", "gat", "gatte", "gare", "ate", "gates"])
def test_a_slip_is_a_letter_too_much_too_few_wrong_or_two_that_changed_places(word: str) -> None:
    assert ("gate" in slips(word)) is (word != "gate")


@pytest.mark.parametrize("word", ["agte", "rate", "gait", "great", "", "etag"])
def test_two_slips_are_none(word: str) -> None:
    assert ("gate" in slips(word)) is (word in ("agte", "rate"))


@pytest.mark.parametrize(
    ("question", "near", "expected"),
    [
        ("Where is the fliter?", {"fliter": "filter"}, "Where is the filter?"),
        ("Fliter, or the fliter?", {"fliter": "filter"}, "filter, or the filter?"),
        ("What colour is the horse?", {"horse": "house"}, "What colour is the horse?"),
        ("Wann kommt der Mieter?", {"mieter": "miete"}, "Wann kommt der Mieter?"),
        ("Is Fliter the fliters' name?", {"fliter": "filter"}, "Is Fliter the fliters' name?"),
    ],
)
def test_what_is_no_word_is_replaced(question: str, near: dict[str, str], expected: str) -> None:
    assert corrected(question, near) == expected
