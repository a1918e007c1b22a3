"""The loss that tells some heads where to look."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from training.batches import Batch
from training.model import PackedQwen2

START_LAYER, MATCH_LAYER, SPAN_LAYER, POINTER_LAYERS, OPENING_LAYER = 1, 2, 4, (3, 4), 5
HEADS = 4
WEIGHTS = (0.1, 0.3, 0.7, 0.1, 0.3)
"""Of the costs of sentence starts, equal tokens, answering sentences, next and first tokens."""
_FLOOR = 1e-4


def watch(model: PackedQwen2) -> None:
    """Keep the attention weights of the guided layers."""
    for layer in {START_LAYER, MATCH_LAYER, SPAN_LAYER, *POINTER_LAYERS, OPENING_LAYER}:
        model.model.blocks()[layer].self_attn.watched = True


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


def guidance_costs(model: PackedQwen2, batch: Batch) -> Tensor:
    """Costs of looking elsewhere, in the order of ``WEIGHTS``.

    A document token should see the start of its sentence, a question token the same token in the
    document, the end of a question the sentence that answers, and an answer token the token in it
    that comes next.
    """
    low, high = batch.low, batch.high
    asked = (low >= 0) & ~batch.in_document
    answering = batch.answers.bool()
    opening = answering & ~functional.pad(answering, (1, 0))[:, :-1]
    start = _cost(_mass(_seen(model, START_LAYER), low, high), batch.in_document)
    equal = batch.tokens.unsqueeze(2) == batch.tokens.unsqueeze(1)
    equal &= batch.allowed[:, 0] & batch.in_document.unsqueeze(1)
    matched = (_seen(model, MATCH_LAYER) * equal.unsqueeze(1)).sum(-1)
    match = _cost(matched, asked & ~answering & equal.any(-1))
    span = _cost(_mass(_seen(model, SPAN_LAYER, HEADS), low, high), asked & opening)
    pointed = batch.pointer >= 0
    next_ones = [
        _cost(_at(_seen(model, layer), batch.pointer), pointed) for layer in POINTER_LAYERS
    ]
    first = _cost(_at(_seen(model, OPENING_LAYER), batch.pointer), pointed & opening)
    return torch.stack((start, match, span, torch.stack(next_ones).mean(), first))
