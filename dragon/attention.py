"""Attention over slots: each run of rows by itself, over keys and values where they lie.

To copy them side by side first would take longer than the rest of a step, where texts are long.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from dragon.cache import BATCH

NAME = "slots"


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Of queries [B, heads, Q, dim] over all slots [slots, heads, T, dim]: [B, Q, heads, dim]."""
    parts = [
        sdpa_attention_forward(
            module,
            query[run.rows],
            key[run.slots, :, : run.length],
            value[run.slots, :, : run.length],
            run.mask.to(query.dtype),
            **options,
        )[0]
        for run in BATCH.get().runs
    ]
    return torch.cat(parts), None


AttentionInterface.register(NAME, attend)
