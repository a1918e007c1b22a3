"""What shows an answer of the kind that a question asks for."""

from __future__ import annotations

from training.data.answer_kinds import kind_missing


def test_what_shows_an_answer_of_the_kind_asked_for() -> None:
    assert kind_missing("When did it end?", "The war was long.")
    assert not kind_missing("When did it end?", "It was over in 1763.")
    assert kind_missing("How many came?", "They all came.")
    assert not kind_missing("When do they come?", "The pharmacy delivers on Fridays.")
