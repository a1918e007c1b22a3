"""Whose matter a question is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dragon.retrieval.whose import Whose, whose
from tests.samples import judge

OWN = ("When is our rent due?", "Which locker is Hannah's?", "What does the lease say on pets?")
WORLD = (
    "How tall does a giraffe get?",
    "What is the capital of Norway?",
    "who painted the Mona Lisa",
)
BOTH = (
    "What is the capital of the country our au pair comes from?",
    "Who composed the piece that Lena plays at the concert?",
    "How high is the mountain we climb in August?",
)
UNREAD = ("Wann ist die Miete fällig?", "¿Cuándo vence el contrato?", "Wie hoch wird eine Giraffe?")


@pytest.mark.parametrize("question", OWN)
def test_what_is_asked_of_ones_own_matters_is_left_to_the_lines(question: str) -> None:
    matter = whose(question, judge())
    assert matter.own > 0
    assert matter.prior == 0.0
    assert not matter.leans


@pytest.mark.parametrize("question", WORLD)
def test_what_anybody_may_ask_needs_a_surer_line(question: str) -> None:
    matter = whose(question, judge())
    assert matter.prior < -0.5
    assert not matter.leans


@pytest.mark.parametrize("question", BOTH)
def test_what_leans_on_ones_own_matters_is_told_from_both(question: str) -> None:
    assert whose(question, judge()).leans


@pytest.mark.parametrize("question", UNREAD)
def test_of_a_language_that_it_does_not_read_it_says_nothing(question: str) -> None:
    matter = whose(question, judge())
    assert matter.own == pytest.approx(0.0, abs=0.2)
    assert not matter.leans


def test_another_judge_says_nothing() -> None:
    other: Any = SimpleNamespace(fingerprint="another")
    assert whose(WORLD[0], other) == Whose()
