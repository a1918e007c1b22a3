"""An auxiliary loss that supervises the attention of some heads."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from training.data.batches import Batch
from training.model.model import PackedQwen2

START_LAYER, MATCH_LAYER, GATHER_LAYER, POINTER_LAYERS, OPENING_LAYER = 1, 2, 4, (3, 4), 5
HEADS, EARLY = 4, 6
WEIGHTS = (0.03, 0.15, 0.3, 0.1, 0.3)
"""Loss weights of sentence starts, equal tokens, distinctive words, next and first tokens."""
_FLOOR = 1e-4


def watch(model: PackedQwen2) -> None:
    """Keep the attention weights of the guided layers."""
    for layer in {START_LAYER, MATCH_LAYER, GATHER_LAYER, *POINTER_LAYERS, OPENING_LAYER}:
        model.model.blocks()[layer].self_attn.watched = True


def word_ids(vocabulary: dict[str, int]) -> Tensor:
    """For each token a number that it shares with its other spellings: case, space, plural s."""
    numbers: dict[str, int] = {}
    words = torch.zeros(len(vocabulary), dtype=torch.long)
    for token, index in vocabulary.items():
        plain = token.removeprefix("Ġ").lower() or token
        if len(plain) > 4 and plain.endswith("s") and not plain.endswith("ss"):
            plain = plain[:-1]
        words[index] = numbers.setdefault(plain, len(numbers))
    return words


def _seen(model: PackedQwen2, layer: int, first: int = 0) -> Tensor:
    weights = model.model.blocks()[layer].self_attn.seen
    assert weights is not None
    return weights[:, first : first + HEADS]


def _cost(mass: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the negative logarithm of attention mass over heads and chosen tokens."""
    kept = mass.transpose(1, 2)[chosen].float()
    return -(kept + _FLOOR).log().mean() if len(kept) else kept.sum()


def _mass(weights: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Attention that falls on the places from ``low`` up to ``high``."""
    total = functional.pad(weights.float().cumsum(-1), (1, 0))
    shape = (*weights.shape[:3], 1)
    upper = total.gather(-1, high.clamp(min=0)[:, None, :, None].expand(shape))
    lower = total.gather(-1, low.clamp(min=0)[:, None, :, None].expand(shape))
    return (upper - lower).squeeze(-1).clamp(min=0)


def _at(weights: Tensor, place: Tensor) -> Tensor:
    """Attention to one place."""
    index = place.clamp(min=0)[:, None, :, None].expand(*weights.shape[:3], 1)
    return weights.gather(-1, index).squeeze(-1)


def guidance_costs(model: PackedQwen2, batch: Batch, words: Tensor) -> Tensor:
    """Costs of looking elsewhere, in the order of ``WEIGHTS``.

    A document token should see the start of its sentence, a question token an equal one in the
    document (``words`` maps a token to what it is equal by), the beginning of an answer the
    question's tokens that only the answering sentence has, and an answer token the one that comes
    next.
    """
    low, high = batch.low, batch.high
    asked = (low >= 0) & ~batch.in_document
    answering = batch.answers.bool()
    opening = answering & ~functional.pad(answering, (1, 0))[:, :-1]
    for _ in range(EARLY - 1):
        opening = opening | (answering & functional.pad(opening, (1, 0))[:, :-1])
    start = _cost(_mass(_seen(model, START_LAYER), low, high), batch.in_document)
    named = words[batch.tokens]
    equal = named.unsqueeze(2) == named.unsqueeze(1)
    equal &= batch.allowed[:, 0] & batch.in_document.unsqueeze(1)
    matched = (_seen(model, MATCH_LAYER) * equal.unsqueeze(1)).sum(-1)
    match = _cost(matched, asked & ~answering & equal.any(-1))
    places = torch.arange(batch.tokens.shape[1])
    in_span = (places >= low.unsqueeze(2)) & (places < high.unsqueeze(2))
    distinctive = asked & ~answering & (equal & in_span).any(-1) & ~(equal & ~in_span).any(-1)
    same_turn = batch.allowed[:, 0] & (low.unsqueeze(2) == low.unsqueeze(1))
    wanted = same_turn & distinctive.unsqueeze(1)
    gathered = (_seen(model, GATHER_LAYER, HEADS) * wanted.unsqueeze(1)).sum(-1)
    gather = _cost(gathered, asked & opening & wanted.any(-1))
    pointed = batch.pointer >= 0
    next_ones = [
        _cost(_at(_seen(model, layer), batch.pointer), pointed) for layer in POINTER_LAYERS
    ]
    first = _cost(_at(_seen(model, OPENING_LAYER), batch.pointer), pointed & opening)
    return torch.stack((start, match, gather, torch.stack(next_ones).mean(), first))
