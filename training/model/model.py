"""A lean Qwen2 for training: the parameter names of ``Qwen2ForCausalLM``, packed-row attention.

``transformers`` runs the exported weights; this module only makes training on a CPU fast. Rows are
packed, and ``allowed`` says which earlier token each token may look at.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ModelConfig:
    """The shape of the model."""

    vocabulary: int = 8192
    hidden: int = 256
    layers: int = 6
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 768
    max_positions: int = 2048
    rope_theta: float = 10000.0
    rms_eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


class RMSNorm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.watched = False
        self.seen: Tensor | None = None
        kv_width = config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden, config.hidden)
        self.k_proj = nn.Linear(config.hidden, kv_width)
        self.v_proj = nn.Linear(config.hidden, kv_width)
        self.o_proj = nn.Linear(config.hidden, config.hidden, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        config = self.config
        q = self.q_proj(x).view(batch, length, config.heads, config.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, config.kv_heads, config.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, config.kv_heads, config.head_dim).transpose(1, 2)
        q, k = _rotate(q, rotary), _rotate(k, rotary)
        groups = config.heads // config.kv_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        scores = (q * config.head_dim**-0.5) @ k.transpose(-1, -2) + mask
        weights = torch.softmax(scores, dim=-1, dtype=scores.dtype)
        self.seen = weights if self.watched else None
        mixed = weights @ v
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, config.hidden))
        return out


def _rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotary
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class MLP(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden, config.rms_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden, config.rms_eps)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotary, mask)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden, config.rms_eps)

    def blocks(self) -> list[Layer]:
        """The layers, with their type."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]


class PackedQwen2(nn.Module):
    """Qwen2 with tied embeddings over packed rows."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.cos: Tensor
        self.sin: Tensor
        self.config = config
        self.model = Decoder(config)
        self.apply(_initialize)
        scale = (2 * config.layers) ** -0.5
        for layer in self.model.blocks():
            layer.self_attn.o_proj.weight.data.mul_(scale)
            layer.mlp.down_proj.weight.data.mul_(scale)
        inverse = config.rope_theta ** (
            -torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        )
        angles = torch.outer(torch.arange(config.max_positions, dtype=torch.float32), inverse)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor, positions: Tensor, allowed: Tensor) -> Tensor:
        """Final hidden states; ``allowed`` is boolean, [batch, 1, length, length]."""
        mask = torch.where(allowed, 0.0, -1e4)
        x = self.model.embed_tokens(tokens)
        if torch.is_autocast_enabled(x.device.type):
            x, mask = x.to(torch.bfloat16), mask.to(torch.bfloat16)
        rotary = (
            self.cos[positions].unsqueeze(1).to(x.dtype),
            self.sin[positions].unsqueeze(1).to(x.dtype),
        )
        for layer in self.model.blocks():
            x = layer(x, rotary, mask)
        out: Tensor = self.model.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary for a list of hidden states."""
        return functional.linear(hidden, self.model.embed_tokens.weight)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02 if module.in_features > 512 else 0.03)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
