"""Scores of a text under prefixes, in a batch of slots, against whole sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.teacher_forcing import Prefix, Scorer, Window
from tests import tiny

WINDOW = Window(tuple(range(40, 48)), tuple(range(60, 80)), (True,) * 20)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return LanguageModel.load(path, tiny.VOCABULARY)


def slow(path: Path, tokens: Sequence[int]) -> torch.Tensor:
    """Log probabilities of the window's targets after other tokens, without slots or batches."""
    network = AutoModelForCausalLM.from_pretrained(str(path))
    whole = [*tokens, *WINDOW.query, *WINDOW.target]
    with torch.inference_mode():
        log_p = torch.log_softmax(network(torch.tensor([whole])).logits[0].double(), -1)
    first = len(whole) - len(WINDOW.target)
    return torch.stack([log_p[i - 1, whole[i]] for i in range(first, len(whole))])


def test_scores_equal_those_of_the_whole_sequence(path: Path, model: LanguageModel) -> None:
    prefixes = [Prefix(), Prefix(tuple(range(5, 25))), Prefix((7,))]
    scores = Scorer(model).score([*prefixes, prefixes[1]], WINDOW)
    for prefix in prefixes:
        torch.testing.assert_close(scores[prefix], slow(path, prefix.tokens), atol=1e-4, rtol=0)
    assert model.cache.free == model.cache.slots


def test_rounded_keys_and_values_change_little(model: LanguageModel) -> None:
    exact, rounded = Prefix(tuple(range(5, 25))), Prefix(tuple(range(5, 25)), 12)
    scores = Scorer(model).score([exact, rounded], WINDOW)
    difference = (scores[exact] - scores[rounded]).abs().max()
    assert 0 < difference < 0.5
