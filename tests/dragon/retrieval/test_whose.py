"""Whose matter a question is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dragon.retrieval.whose import own_odds, own_prior
from tests.samples import embedder

OWN = ("When is our rent due?", "Which locker is Hannah's?", "What does the lease say on pets?")
WORLD = (
    "How tall does a giraffe get?",
    "What is the capital of Norway?",
    "who painted the Mona Lisa",
)
UNREAD = ("Wann ist die Miete fällig?", "¿Cuándo vence el contrato?", "Wie hoch wird eine Giraffe?")


@pytest.mark.parametrize("question", OWN)
def test_what_is_asked_of_ones_own_matters_is_left_to_the_lines(question: str) -> None:
    assert own_odds(question, embedder()) > 0
    assert own_prior(question, embedder()) == 0.0


@pytest.mark.parametrize("question", WORLD)
def test_what_anybody_may_ask_needs_a_surer_line(question: str) -> None:
    assert own_prior(question, embedder()) < -0.5


@pytest.mark.parametrize("question", UNREAD)
def test_of_a_language_that_it_does_not_read_it_says_nothing(question: str) -> None:
    assert own_odds(question, embedder()) == pytest.approx(0.0, abs=0.2)


def test_another_embedder_says_nothing() -> None:
    other: Any = SimpleNamespace(fingerprint="another")
    assert own_prior(WORLD[0], other) == 0.0
