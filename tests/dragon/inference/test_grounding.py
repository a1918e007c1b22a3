"""Numbers, codes and names of a reply stand in its sources."""

from __future__ import annotations

import pytest
import torch

from dragon.inference.grounding import LIKELIEST, Grounding
from dragon.inference.tokenizer import Tokenizer
from dragon.models import EMBEDDED_WRITER

SOURCES = [
    "Who fixes it?",
    "Dow & Sons fix the standpipe on 2 April for 1,140 euros, code E28, policy AM-55-2093.",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(EMBEDDED_WRITER)


def may(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text can be written token by token, each the likeliest of all."""
    held = Grounding(tokenizer, SOURCES, [1], tokenizer.end_ids)
    ids = [*tokenizer.encode(text), min(tokenizer.end_ids)]
    for place, token in enumerate(ids):
        logits = torch.zeros(tokenizer.vocab_size)
        logits[token] = 9.0
        if token not in held.allowed(ids[:place], logits):
            return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "Dow & Sons do, on 2 April. [1]",
        "It costs 1,140 euros.",
        "The code is E28, and that is all.",
        "The policy is AM-55-2093.",
        "Yes, it is fixed.",
        "However, it is fixed.",
    ],
)
def test_what_stands_there_may_be_said(tokenizer: Tokenizer, text: str) -> None:
    assert may(tokenizer, text)


@pytest.mark.parametrize(
    "text",
    [
        "It is fixed on 3 April.",
        "It costs 1,400 euros.",
        "They use the 2-bit standard.",
        "The code is E29.",
        "The policy is AM-55.",
        "The policy is AM-55-2094.",
        "Okonjo & Sons fix it.",
        "They fix it in Lisbon.",
        "They do. [2]",
        "It is fixed. It is fixed. It is fixed.",
        "Yes",
        "Yes [1]",
    ],
)
def test_what_stands_nowhere_is_not_said(tokenizer: Tokenizer, text: str) -> None:
    assert not may(tokenizer, text)


def test_something_may_always_be_written(tokenizer: Tokenizer) -> None:
    held = Grounding(tokenizer, ["x"], [], tokenizer.end_ids)
    logits = torch.full((tokenizer.vocab_size,), -9.0)
    logits[tokenizer.encode("7")] = 9.0
    allowed = held.allowed(tokenizer.encode("The code is"), logits)
    assert 0 < len(allowed) <= LIKELIEST
