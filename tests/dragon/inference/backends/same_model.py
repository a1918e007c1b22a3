"""That another backend runs the same model as torch."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from dragon.inference.backends.backend import Backend

TOLERANCE = 0.03
"""llama.cpp multiplies in half precision: a probability is off by as much."""


def among(named: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
    """Probabilities [..., V] of the tokens that have a logit in `named`, scaled to 1."""
    kept = torch.where(torch.isfinite(named), probabilities, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def check_random_texts(
    model: Backend,
    reference: Backend,
    words: Sequence[int],
    likeliest: int | None = None,
    *,
    turns: int = 25,
) -> None:
    """Random appends, rollbacks and batches of rows of `words`.

    `likeliest` is how many tokens the model names at most, where it does not name all.
    """
    chance = random.Random(5)
    texts: dict[int, list[int]] = {slot: [] for slot in range(4)}
    for _ in range(turns):
        slots = sorted(chance.sample(list(texts), chance.randint(1, 4)))
        length = chance.choice([1, 1, 2, 9])
        outputs = chance.randint(1, length)
        starts, tokens = [], []
        for slot in slots:
            del texts[slot][chance.randint(0, len(texts[slot])) :]  # roll back
            starts.append(len(texts[slot]))
            texts[slot] += words[starts[-1] : starts[-1] + length]
            tokens.append(texts[slot][-length:])
        fed = torch.tensor(tokens)
        found = model.forward(slots, starts, fed, outputs)
        wanted = torch.softmax(reference.forward(slots, starts, fed, outputs), -1)
        assert found.shape == wanted.shape
        named = torch.isfinite(found).sum(-1)
        assert bool((named <= likeliest if likeliest else named == model.vocab_size).all())
        assert float((torch.softmax(found, -1) - among(found, wanted)).abs().max()) < TOLERANCE


def greedy(model: Backend, document: Sequence[int], question: Sequence[int]) -> list[int]:
    """The likeliest text of a row, up to its end or 40 tokens."""
    (slot,) = model.cache.acquire(1) or []
    model.forward([slot], [0], torch.tensor([document]), 0)
    text: list[int] = []
    fed = list(question)
    while not text or (text[-1] not in model.ends and len(text) < 40):
        start = len(document) + (len(question) + len(text) - 1 if text else 0)
        text.append(int(model.forward([slot], [start], torch.tensor([fed]), 1)[0, -1].argmax()))
        fed = text[-1:]
    model.cache.release([slot])
    return text
