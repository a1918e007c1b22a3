"""A question of a chat with what it takes over from those before it."""

from __future__ import annotations

import pytest

from dragon.retrieval.query_parsing import questions_of
from dragon.retrieval.standing_alone import leans, standing_alone

CODE = "What is the new gate code?"


@pytest.mark.parametrize(
    ("question", "earlier", "expected"),
    [
        ("How will we get it?", [CODE], "How will we get it? (new gate code)"),
        ("and when?", ["Who fixes the tap?"], "and when? (fixes tap)"),
        ("What about the ring?", ["Who made the crown?"], "What about the ring? (made crown)"),
        ("What if it rains?", ["When is the fair?"], "What if it rains? (fair)"),
        # Over questions that lean themselves, the latest words first.
        ("And why?", [CODE, "Who changes it?"], "And why? (changes new gate code)"),
        ("And why?", [CODE, "Who fixes the tap?"], "And why? (fixes tap)"),
        # What stands alone stays as it is: names, identifiers, words of its own.
        ("Who fixes the tap?", [CODE], "Who fixes the tap?"),
        ("And B106?", ["What does B105 cost?"], "And B106?"),
        ("Hi! Who fixes the tap, please?", [CODE], "Hi! Who fixes the tap, please?"),
        ("And when?", [], "And when?"),
        ("How will we get it?", ["...", "..."], "How will we get it?"),
    ],
)
def test_what_it_leaves_out_comes_from_before(
    question: str, earlier: list[str], expected: str
) -> None:
    assert standing_alone(question, earlier) == expected


def test_the_earlier_question_is_not_asked_again() -> None:
    whole = standing_alone("How will we get it?", [CODE])
    assert questions_of(whole) == (whole,)


def test_a_very_long_question_before_does_not_drown_it() -> None:
    before = "What do " + " ".join(f"word{n}x" for n in range(500)) + " mean?"
    assert len(standing_alone("And why?", [before]).split()) <= 16


@pytest.mark.parametrize(
    "question", ["And when?", "What does it cost?", "How about you?", "what if", "why"]
)
def test_what_leans(question: str) -> None:
    assert leans(question)
