"""Re-scoring with the embedder: documents gain as the text comes to speak of them."""

from __future__ import annotations

import numpy as np
import pytest

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.prompt_rows import RECENT_TOKENS, rescoring
from dragon.retrieval.relevance import BARE_RELEVANCE
from harness.models import SMALL_MODEL
from tests.samples import embedder

SLOPE = 20.0
QUESTION = "What do I have to bring?"
DOCUMENTS = ("The dentist asked for the insurance card.", "The hikers need boots and a rope.")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


def test_relevance_is_that_of_question_and_text(tokenizer: Tokenizer) -> None:
    vectors = embedder().embed(DOCUMENTS)
    rows = [
        Row((1,), 0.0, vector=vectors[0]),
        Row((2,), 0.0, vector=vectors[1]),
        Row((3,), BARE_RELEVANCE),
    ]
    made = rescoring(embedder(), tokenizer, QUESTION, rows, 8, SLOPE)
    assert made.every == 8
    text = " For the climb in the mountains you have to bring"
    dentist, hike, bare = made.relevance(tokenizer.encode(text))
    asked, running = embedder().embed([QUESTION, f"{QUESTION} {text}"])
    gained = [SLOPE * float(v @ (running - asked)) for v in vectors]
    assert np.allclose([dentist, hike], gained, atol=1e-3)
    assert hike > dentist
    assert bare == BARE_RELEVANCE


def test_the_newest_tokens_count(tokenizer: Tokenizer) -> None:
    rows = [Row((1,), 0.0, vector=embedder().embed(DOCUMENTS)[1])]
    made = rescoring(embedder(), tokenizer, QUESTION, rows, 8, SLOPE)
    text = tokenizer.encode(" word" * 500 + " rope and boots")
    assert made.relevance(text) == made.relevance(text[-RECENT_TOKENS:])


def test_nothing_to_rescore(tokenizer: Tokenizer) -> None:
    document = Row((1,), 0.0, embedder().embed(DOCUMENTS)[0])
    assert rescoring(embedder(), tokenizer, QUESTION, [document], 0, SLOPE) is None
    assert rescoring(embedder(), tokenizer, QUESTION, [Row((1,), BARE_RELEVANCE)], 8, SLOPE) is None
