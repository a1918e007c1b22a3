"""Tensors of packed rows, and the mask that keeps examples and branches apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training.data.packing import ROW


@dataclass
class Batch:
    """Rows for one step."""

    tokens: Tensor
    positions: Tensor
    allowed: Tensor
    targets: Tensor
    weights: Tensor
    answers: Tensor
    in_document: Tensor
    low: Tensor
    high: Tensor
    pointer: Tensor


def to_batch(grid: np.ndarray, weights: np.ndarray) -> Batch:
    """Tensors and the attention mask for packed rows, on torch's default device."""
    device = torch.get_default_device()
    integers = torch.from_numpy(grid).long().to(device)
    tokens, targets, positions, roots, branches, answers, low, high, pointer = integers
    causal = torch.ones(ROW, ROW, dtype=torch.bool).tril()
    same_root = roots.unsqueeze(2) == roots.unsqueeze(1)
    same_branch = branches.unsqueeze(2) == branches.unsqueeze(1)
    in_document = (branches == 0).unsqueeze(1)
    allowed = causal & same_root & (same_branch | in_document)
    return Batch(
        tokens,
        positions,
        allowed.unsqueeze(1),
        targets,
        torch.from_numpy(weights).to(device),
        answers,
        (branches == 0) & (low >= 0),
        low,
        high,
        pointer,
    )
