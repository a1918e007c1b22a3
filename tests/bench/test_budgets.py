"""Perplexity within a budget: nothing of the passages without one, all of them with a large one."""

from __future__ import annotations

import math

import numpy as np

from bench.experiments.budgets import TOKENS, Predictor
from bench.lib.wikitext import Passage, Window
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL

TEXT = "The lighthouse keeper of Arran painted the tower green in the summer of 1931. " * 8


def predictor(private: str) -> Predictor:
    """Of a text whose beginning is the query, with this in the device's passage."""
    tokenizer = Tokenizer.load(SMALL_MODEL)
    model = LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)
    tokens = tokenizer.encode(TEXT)
    window = Window(tuple(tokens[:8]), tuple(tokens[8 : 8 + TOKENS]), (True,) * TOKENS)

    def passage(text: str) -> Passage:
        return Passage(text, 0.5, np.zeros(1, dtype=np.float32))

    return Predictor(model, tokenizer, window, [passage(private)], [passage("Rain is likely.")])


def test_a_larger_budget_lets_more_of_a_passage_in() -> None:
    telling, other = predictor(TEXT), predictor("The violin has four strings.")
    results = [telling.predict(epsilon) for epsilon in (0.0, 1.0, 16.0, math.inf)]
    likelihoods, shares, spent = zip(*results, strict=True)
    assert shares == tuple(sorted(shares))
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert likelihoods[-1] > likelihoods[0]
    assert likelihoods[2] > likelihoods[0]
    assert 0.0 < spent[1] <= 1.0
    assert spent[2] <= 16.0
    # Without a budget the passage makes no difference at all.
    assert other.predict(0.0) == telling.predict(0.0)
