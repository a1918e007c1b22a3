"""Attention over slots: one call per run of rows, over keys and values where they lie.

Copying them side by side first would take longer than the rest of a step if texts are long.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from dragon.errors import ConfigurationError
from dragon.inference.backends.torch.cache import BATCH

NAME = "slots"


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of queries [B, heads, Q, dim] over all that is stored: [B, Q, heads, dim].

    Raises `ConfigurationError` for a position bias: positions differ from slot to slot.
    """
    if options.get("position_bias") is not None:
        raise ConfigurationError("models with a position bias in attention are not supported")
    # The CPU's kernel supports heads that share keys and values; `transformers` copies these for
    # each head if there are several queries.
    shares = query.device.type == "cpu" and query.shape[2] > 1
    call = _shared if shares else sdpa_attention_forward
    parts = [
        call(
            module,
            query[run.rows],
            run.read(key),
            run.read(value),
            run.mask.to(query.dtype),
            **options,
        )[0]
        for run in BATCH.get().runs
    ]
    return torch.cat(parts), None


def _shared(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    *,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    result = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
    )
    return result.transpose(1, 2), None


AttentionInterface.register(NAME, attend)
