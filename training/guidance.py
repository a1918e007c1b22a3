"""The loss that tells some heads where to look."""

from __future__ import annotations

import torch
from torch import Tensor

from training.batches import Batch
from training.model import PackedQwen2

START_LAYER, SPAN_LAYER, POINTER_LAYERS = 1, 2, (3, 4)
HEADS = 4
_FLOOR = 1e-4


def watch(model: PackedQwen2) -> None:
    """Keep the attention weights of the guided layers."""
    for layer in (START_LAYER, SPAN_LAYER, *POINTER_LAYERS):
        model.model.blocks()[layer].self_attn.watched = True


def _seen(model: PackedQwen2, layer: int) -> Tensor:
    weights = model.model.blocks()[layer].self_attn.seen
    assert weights is not None
    return weights[:, :HEADS]


def _cost(mass: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the negative logarithm of attention mass over heads and chosen tokens."""
    kept = mass.transpose(1, 2)[chosen].float()
    return -(kept + _FLOOR).log().mean() if len(kept) else kept.sum()


def _mass(weights: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Attention that falls on the places from ``low`` up to ``high``."""
    total = torch.nn.functional.pad(weights.float().cumsum(-1), (1, 0))
    shape = (*weights.shape[:3], 1)
    upper = total.gather(-1, high.clamp(min=0)[:, None, :, None].expand(shape))
    lower = total.gather(-1, low.clamp(min=0)[:, None, :, None].expand(shape))
    return (upper - lower).squeeze(-1).clamp(min=0)


def guidance_loss(model: PackedQwen2, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Costs of looking elsewhere: sentence starts, answering sentences, next tokens."""
    low, high = batch.low, batch.high
    asked = (low >= 0) & ~batch.in_document
    start = _cost(_mass(_seen(model, START_LAYER), low, high), batch.in_document)
    span = _cost(_mass(_seen(model, SPAN_LAYER), low, high), asked)
    pointed = batch.pointer >= 0
    place = batch.pointer.clamp(min=0)[:, None, :, None]
    costs = []
    for layer in POINTER_LAYERS:
        weights = _seen(model, layer)
        at = weights.gather(-1, place.expand(*weights.shape[:3], 1)).squeeze(-1)
        costs.append(_cost(at, pointed))
    return start, span, torch.stack(costs).mean()
