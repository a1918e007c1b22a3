"""Questions that were answered, spoilt by rule."""

from __future__ import annotations

import random

import pytest

from training.data.hard_negatives import Spoiler
from training.data.sources import SCHEMAS

SENTENCE = "In 1806 the northern army of General Moreau defeated the Duke of Parma near Ulm."


@pytest.fixture(scope="module")
def spoiler() -> Spoiler:
    return Spoiler.load(SCHEMAS / "antonyms.txt", ["Lisbon", "Anna Roth"], ["kettle", "garden"])


@pytest.mark.parametrize(
    "question",
    [
        "When did General Moreau defeat the Duke of Parma?",
        "What was defeated in 1806?",
        "Which northern army fought near the town?",
        "Where did the army win?",
    ],
)
def test_a_spoilt_question_is_another_one(spoiler: Spoiler, question: str) -> None:
    spoilt = {spoiler.spoil(question, SENTENCE, random.Random(seed)) for seed in range(40)}
    assert question not in spoilt
    assert len(spoilt - {None}) > 3


def test_nothing_to_change(spoiler: Spoiler) -> None:
    found = [spoiler.spoil("ulm", "The town.", random.Random(seed)) for seed in range(20)]
    assert found == [None] * 20


def test_antonyms_go_both_ways(spoiler: Spoiler) -> None:
    assert "southern" in spoiler.opposites["northern"]
    assert "northern" in spoiler.opposites["southern"]
