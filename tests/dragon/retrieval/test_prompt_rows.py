"""Passages become rows of the prompt: those that fit, or the bare row."""

from __future__ import annotations

import pytest

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.prompt_rows import document_rows
from dragon.retrieval.relevance import BARE_RELEVANCE
from harness.models import SMALL_MODEL
from harness.reference import Passage

PASSAGES = [
    Passage("The key is under the mat.", 0.5, "a"),
    Passage("The key " * 100, 0.75, "b"),
    Passage("The door is red.", 0.25, "c"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.mark.parametrize("raw", [False, True])
def test_passages_that_fit_keep_their_order_and_relevance(
    tokenizer: Tokenizer, *, raw: bool
) -> None:
    rows, kept = document_rows(tokenizer, PASSAGES, 60, raw=raw, quotes=False)
    assert kept == [PASSAGES[0], PASSAGES[2]]
    assert rows == [
        Row(tuple(tokenizer.document_row(p.text, raw=raw)), p.relevance, p.document) for p in kept
    ]


@pytest.mark.parametrize("raw", [False, True])
def test_without_a_passage_that_fits_there_is_the_bare_row(
    tokenizer: Tokenizer, *, raw: bool
) -> None:
    rows, kept = document_rows(tokenizer, PASSAGES[1:2], 60, raw=raw, quotes=False)
    assert kept == []
    assert rows == [Row(tuple(tokenizer.bare_row(raw=raw)), BARE_RELEVANCE)]
