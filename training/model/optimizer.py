"""Muon for the hidden matrices, AdamW for the rest, and the warm-up/stable/decay schedule.

torch.optim.Muon computes the same update up to bfloat16 rounding, but all of it in every process;
here the matrices are divided among the processes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def orthogonalize(update: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration on a stack of matrices, in bfloat16."""
    x = update.to(torch.bfloat16)
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    result: Tensor = x.transpose(-1, -2) if wide else x
    return result.float()


def orthogonalize_shared(update: Tensor) -> Tensor:
    """The same for a stack whose matrices are divided among the training processes."""
    if not dist.is_initialized():
        return orthogonalize(update)
    share = -(-len(update) // dist.get_world_size())
    parts = list(torch.split(update, share))
    mine = orthogonalize(parts[dist.get_rank()])
    gathered = [torch.empty_like(part) for part in parts]
    dist.all_gather(gathered, mine.contiguous())
    return torch.cat(gathered)


def average_gradients(params: list[nn.Parameter]) -> None:
    """Replace every gradient by its mean over the training processes."""
    if not dist.is_initialized():
        return
    gradients = [param.grad for param in params if param.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, mean in zip(gradients, torch.split(flat, sizes), strict=True):
        gradient.copy_(mean.view_as(gradient))


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; matrices of one shape are handled in one stack."""

    def __init__(
        self, params: list[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for param in group["params"]:
                if param.grad is not None:
                    by_shape[param.shape].append(param)
            for shape, params in by_shape.items():
                gradients = torch.stack([param.grad for param in params if param.grad is not None])
                momenta = torch.stack([self._momentum(param) for param in params])
                momenta.lerp_(gradients, 1 - group["momentum"])
                update = orthogonalize_shared(gradients.lerp(momenta, group["momentum"]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for index, param in enumerate(params):
                    self.state[param]["momentum"].copy_(momenta[index])
                    param.mul_(1 - group["lr"] * group["decay"])
                    param.add_(update[index], alpha=-scale)

    def _momentum(self, param: nn.Parameter) -> Tensor:
        state = self.state[param]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(param)
        momentum: Tensor = state["momentum"]
        return momentum


def make_optimizers(
    model: nn.Module, matrix_lr: float, other_lr: float
) -> list[torch.optim.Optimizer]:
    """Muon for two-dimensional layer weights; AdamW for embeddings, norms and biases."""
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if p.ndim != 2 or "embed" in n]
    return [
        Muon(matrices, lr=matrix_lr),
        torch.optim.AdamW(others, lr=other_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def schedule(step: int, total: int, warmup: int, decay: int) -> float:
    """Learning-rate factor: linear warm-up, flat, then linear decay over the last steps."""
    if step < warmup:
        return (step + 1) / warmup
    if step > total - decay:
        return max(0.02, (total - step) / decay)
    return 1.0


def agreed(factor: float) -> float:
    """The first process's factor, in all of them: their clocks differ."""
    if not dist.is_initialized():
        return factor
    shared = torch.tensor([factor], dtype=torch.float64)
    dist.broadcast(shared, 0)
    return float(shared)
