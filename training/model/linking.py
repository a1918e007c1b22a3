"""Connects the guided heads to a path from question to answer, once, in the middle of training.

When the guided heads look at the right places, their values still say nothing useful to each other.
Here half of the value channels of each of them (those with the least effect) are given the job of
passing a code of the sentence's start: document tokens take it from the start of their sentence,
question tokens from equal tokens of the document, the beginning of an answer from the question's
distinctive tokens; there, heads of the last layer compare it with the code at each place of the
document. The codes live in the directions of the residual stream that are used least.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.data.batches import Batch
from training.model.guidance import GATHER_LAYER, MATCH_LAYER, OPENING_LAYER, START_LAYER
from training.model.model import PackedQwen2

CHANNELS = 16
CODE = 2 * CHANNELS
START_GAIN, MATCH_GAIN, GATHER_GAIN, COMPARE_GAIN = 0.6, 1.2, 1.5, 2.5
_SLOW_PAIRS = range(9, 16)


@torch.no_grad()
def _residuals(model: PackedQwen2, batches: list[Batch]) -> list[Tensor]:
    """What enters each layer, for some batches."""
    seen: list[list[Tensor]] = [[] for _ in model.model.blocks()]
    handles = []
    for index, layer in enumerate(model.model.blocks()):

        def keep(_: object, inputs: tuple[Tensor, ...], index: int = index) -> None:
            seen[index].append(inputs[0].detach().float().flatten(0, 1))

        handles.append(layer.register_forward_pre_hook(keep))
    for batch in batches:
        model(batch.tokens, batch.positions, batch.allowed)
    for handle in handles:
        handle.remove()
    return [torch.cat(tensors) for tensors in seen]


def _pass_on(
    model: PackedQwen2, layer: int, groups: tuple[int, int], read: Tensor, write: Tensor
) -> None:
    """Let the heads of two key groups read a code and write it, beside the best half of theirs."""
    block = model.model.blocks()[layer]
    attention, scale = block.self_attn, block.input_layernorm.weight
    dim, width = model.config.head_dim, model.config.hidden
    for order, group in enumerate(groups):
        rows = slice(group * dim, (group + 1) * dim)
        heads = [slice(head * dim, (head + 1) * dim) for head in (2 * group, 2 * group + 1)]
        values = torch.cat((attention.v_proj.weight[rows], attention.v_proj.bias[rows, None]), 1)
        outputs = torch.cat([attention.o_proj.weight[:, head] for head in heads])
        left, sizes, right = torch.linalg.svd(outputs @ values, full_matrices=False)
        best = left[:, :CHANNELS] * sizes[:CHANNELS]
        code = slice(order * CHANNELS, (order + 1) * CHANNELS)
        attention.v_proj.weight[rows] = torch.cat((right[:CHANNELS, :-1], read[:, code].T / scale))
        attention.v_proj.bias[rows] = torch.cat((right[:CHANNELS, -1], torch.zeros(CHANNELS)))
        for place, head in enumerate(heads):
            old = best[place * width : (place + 1) * width]
            attention.o_proj.weight[:, head] = torch.cat((old, write[:, code] / 2), 1)


def _compare(model: PackedQwen2, gathered: Tensor, start: Tensor) -> None:
    """Let the opening heads look for the gathered code among the start codes."""
    block = model.model.blocks()[OPENING_LAYER]
    attention, scale = block.self_attn, block.input_layernorm.weight
    dim = model.config.head_dim
    slow = [*_SLOW_PAIRS, *(pair + dim // 2 for pair in _SLOW_PAIRS)]
    for group in (0, 1):
        code = slice(group * CHANNELS, group * CHANNELS + len(slow))
        rows = torch.tensor(slow)
        attention.k_proj.weight[group * dim + rows] += COMPARE_GAIN * start[:, code].T / scale
        for head in (2 * group, 2 * group + 1):
            attention.q_proj.weight[head * dim + rows] += COMPARE_GAIN * gathered[:, code].T / scale


@torch.no_grad()
def link_guided_heads(model: PackedQwen2, batches: list[Batch], seed: int = 0) -> None:
    """Change the weights as described at the top of this module."""
    generator = torch.Generator().manual_seed(seed)
    residuals = _residuals(model, batches)
    sizes = [residual.pow(2).mean().sqrt() for residual in residuals]
    late = list(zip(residuals, sizes, strict=True))[MATCH_LAYER:]
    covariance = torch.stack([(r / s).T @ (r / s) / len(r) for r, s in late]).mean(0)
    quiet = torch.linalg.eigh(covariance).eigenvectors[:, : 3 * CODE]
    quiet = quiet[:, torch.randperm(3 * CODE, generator=generator)]
    start, gathered, matched = quiet.split(CODE, dim=1)
    half = model.config.hidden // 2
    token = torch.zeros(model.config.hidden, CODE)
    token[:half] = torch.linalg.qr(torch.randn(half, CODE, generator=generator)).Q
    _pass_on(model, START_LAYER, (0, 1), token, start * START_GAIN * sizes[START_LAYER + 1])
    _pass_on(model, MATCH_LAYER, (0, 1), start, matched * MATCH_GAIN * sizes[MATCH_LAYER + 1])
    _pass_on(model, GATHER_LAYER, (2, 3), matched, gathered * GATHER_GAIN * sizes[GATHER_LAYER + 1])
    _compare(model, gathered, start)
