"""What the reranker is trained on."""

from __future__ import annotations

import random

from dragon.retrieval.lexical import content_words
from training.reranker.data import heading


def test_a_heading_has_words_of_the_question_and_nothing_of_the_answer() -> None:
    rng = random.Random(1)
    question = "Where is the choir staying in Ljubljana?"
    made = {heading(question, rng) for _ in range(200)}
    assert len(made) > 50
    for title in made:
        assert title is not None
        assert title[0].isupper()
        assert set(content_words(title)) & set(content_words(question))
    assert heading("What is it?", rng) is None
