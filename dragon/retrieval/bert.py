"""A BERT encoder, without what transformers' own class of it imports.

`transformers.BertModel` brings torch.distributed, sympy and scipy along: 120 MB in each service and
seconds of its start. Weights have the names that it gives them; states are the same bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

WEIGHTS = "model.safetensors"


class Bert:
    """BERT (arXiv 1810.04805) with GELU and absolute positions, without a pooler or dropout.

    `directory` has its `config.json` as transformers writes it. Raises `KeyError` if a weight is
    missing.
    """

    def __init__(self, directory: Path, weights: Mapping[str, Tensor]) -> None:
        config = json.loads((directory / "config.json").read_text("utf-8"))
        self.width: int = config["hidden_size"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon: float = config["layer_norm_eps"]
        self._embeddings = {
            name: weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        }
        self._embeddings_norm = _affine(weights, "embeddings.LayerNorm")
        self._layers = [
            {name: _affine(weights, f"encoder.layer.{number}.{name}") for name in _PARTS}
            for number in range(config["num_hidden_layers"])
        ]

    def __call__(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """Hidden states, float32 [n, length, width], of tokens int64 [n, length].

        `mask` is 1 at tokens and 0 at padding; `segments` are 0 and 1 (0 by default).
        """
        length = tokens.shape[1]
        segments = torch.zeros_like(tokens) if segments is None else segments
        states = functional.embedding(tokens, self._embeddings["word"])
        states = states + functional.embedding(segments, self._embeddings["token_type"])
        states = self._normed(states + self._embeddings["position"][:length], self._embeddings_norm)
        attended = None if bool(mask.all()) else mask[:, None, None].bool()
        for layer in self._layers:
            states = self._through(layer, states, attended)
        return states

    def _through(self, layer: _Layer, states: Tensor, attended: Tensor | None) -> Tensor:
        """The states after a layer; `attended` is bool [n, 1, 1, length]."""
        n, length, width = states.shape
        q, k, v = (
            functional.linear(states, *layer[f"attention.self.{name}"])
            .view(n, length, self._heads, -1)
            .transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=attended)
        mixed = mixed.transpose(1, 2).reshape(n, length, width)
        mixed = functional.linear(mixed, *layer["attention.output.dense"])
        states = self._normed(mixed + states, layer["attention.output.LayerNorm"])
        inner = functional.gelu(functional.linear(states, *layer["intermediate.dense"]))
        outer = functional.linear(inner, *layer["output.dense"])
        return self._normed(outer + states, layer["output.LayerNorm"])

    def _normed(self, states: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
        return functional.layer_norm(states, (self.width,), *affine, self._epsilon)


_Layer = Mapping[str, tuple[Tensor, Tensor]]

_PARTS = (
    *(f"attention.self.{name}" for name in ("query", "key", "value")),
    *("attention.output.dense", "attention.output.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)


def _affine(weights: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The encoder's weights in a model's directory, float32, without those of a pooler.

    They stay in the file's mapping, where only rows in use are resident.
    """
    read = load_file(directory / WEIGHTS)
    other = ("pooler.", "embeddings.position_ids")
    return {name: each.float() for name, each in read.items() if not name.startswith(other)}
