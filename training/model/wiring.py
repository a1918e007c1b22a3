"""An initialisation that can copy: it saves the millions of tokens before copying emerges.

Half of the residual stream holds the token (dimensions below ``half``). In the first layer every
head looks one position back, through its biases and the rotary positions alone, and writes that
token into the other half. In a later layer each head compares its token with the previous token of
every earlier position, on the slow rotary pairs, and writes the token found there: an induction
head. All else starts small, and training is free to change everything.
"""

from __future__ import annotations

import torch

from training.model.model import Attention, PackedQwen2

EMBEDDING_STD = 0.25
FINAL_NORM = 0.35
COPY_LAYER = 3
_SLOW_PAIRS = range(9, 16)
_FAST, _REST = 8.0, 4.0
_MATCH, _COPY = 2.5, 4.0


@torch.no_grad()
def wire_copying(model: PackedQwen2, noise: float = 0.25) -> None:
    """Overwrite a fresh model's weights; ``noise`` scales what is left random."""
    config = model.config
    half = config.hidden // 2
    embedding = model.model.embed_tokens.weight
    embedding.normal_(std=EMBEDDING_STD)
    embedding[:, half:] *= 0.1
    for layer in model.model.blocks():
        layer.self_attn.o_proj.weight.mul_(noise)
        layer.mlp.down_proj.weight.mul_(noise)
    model.model.norm.weight.fill_(FINAL_NORM)
    _look_back(model.model.blocks()[0].self_attn, half)
    _match_and_copy(model.model.blocks()[COPY_LAYER].self_attn, half)


@torch.no_grad()
def lift_embeddings(model: PackedQwen2, least: float = 2.8) -> None:
    """Scale up embeddings that have shrunk: a rare token with a small one cannot be copied."""
    embedding = model.model.embed_tokens.weight
    embedding.mul_((least / embedding.norm(dim=1, keepdim=True)).clamp(min=1.0))


def _look_back(attention: Attention, half: int) -> None:
    config = attention.config
    dim, pairs = config.head_dim, config.head_dim // 2
    frequency = config.rope_theta ** (-torch.arange(pairs) * 2.0 / dim)
    size = torch.full((pairs,), _REST)
    size[:4] = _FAST
    attention.q_proj.weight.mul_(0.3)
    attention.k_proj.weight.mul_(0.3)
    query = torch.cat((frequency.cos() * size, -frequency.sin() * size))
    key = torch.cat((size, torch.zeros(pairs)))
    attention.q_proj.bias.copy_(query.repeat(config.heads))
    attention.k_proj.bias.copy_(key.repeat(config.kv_heads))
    attention.v_proj.weight.mul_(0.1)
    groups = config.heads // config.kv_heads
    for group in range(config.kv_heads):
        for index in range(dim):
            attention.v_proj.weight[group * dim + index, group * dim + index] = 1.0
    for head in range(config.heads):
        for index in range(dim):
            row = half + (head // groups) * dim + index
            attention.o_proj.weight[row, head * dim + index] = EMBEDDING_STD / 2.0**0.5 / groups


def _match_and_copy(attention: Attention, half: int) -> None:
    config = attention.config
    dim, pairs = config.head_dim, config.head_dim // 2
    groups = config.heads // config.kv_heads
    slow = [*_SLOW_PAIRS, *(pairs + pair for pair in _SLOW_PAIRS)]
    attention.q_proj.weight.mul_(0.1)
    attention.k_proj.weight.mul_(0.1)
    attention.v_proj.weight.mul_(0.1)
    for group in range(config.kv_heads):
        for place, index in enumerate(slow):
            attention.k_proj.weight[group * dim + index, half + group * dim + place] = _MATCH
        for index in range(dim):
            attention.v_proj.weight[group * dim + index, group * dim + index] = 1.0
    for head in range(config.heads):
        group = head // groups
        for place, index in enumerate(slow):
            attention.q_proj.weight[head * dim + index, group * dim + place] = _MATCH
        for index in range(dim):
            row = group * dim + index
            attention.o_proj.weight[row, head * dim + index] = _COPY * EMBEDDING_STD
