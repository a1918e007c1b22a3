"""A causal language model over slots: any decoder-only architecture of `transformers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from dragon.cache import Batch, SlotCache
from dragon.errors import ConfigurationError, PreemptedError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
MAX_CONTEXT = 4096
_CACHE_BYTES = 2 << 30
_MIN_SLOTS, _MAX_SLOTS = 16, 256


class LanguageModel:
    """Weights and slots. Not thread-safe: the engine's thread alone runs it.

    `abandon`, when set, is asked before every layer; once it says yes the forward is given up with
    `PreemptedError`.
    """

    def __init__(self, network: Any, vocab_size: int, name: str) -> None:
        config = network.config.get_text_config()
        if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
            raise ConfigurationError(f"{name}: models with sliding attention are not supported")
        if config.vocab_size < vocab_size:
            raise ConfigurationError(f"{name}: the tokenizer has more tokens than the model")
        self.name = name
        self.vocab_size = vocab_size
        self.context = min(MAX_CONTEXT, int(config.max_position_embeddings))
        self.abandon: Callable[[], bool] | None = None
        self._network = network
        self._device = network.device
        # Vocabularies are padded differently in models of one family: only real tokens count.
        self.layers = list(network.get_decoder().layers)
        self.cache = SlotCache(len(self.layers), self._slots(config), self.context)
        for layer in self.layers:
            layer.register_forward_pre_hook(self._check)

    @classmethod
    def load(
        cls, path: str | Path, vocab_size: int, *, dtype: str = "float32", device: str = "cpu"
    ) -> LanguageModel:
        """Load from a directory or a hub name; raises `ConfigurationError` when it cannot."""
        try:
            network = AutoModelForCausalLM.from_pretrained(
                str(path), dtype=DTYPES[dtype], attn_implementation="sdpa"
            )
            network = network.to(device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"no model could be loaded from {path}: {error}") from error
        return cls(network, vocab_size, Path(path).name)

    @torch.inference_mode()
    def forward(
        self, slots: Sequence[int], starts: Sequence[int], tokens: torch.Tensor, outputs: int
    ) -> torch.Tensor:
        """Feed `tokens` int64 [B, Q] to rows at `starts`; the last logits, float32 [B, outputs, V].

        Raises `PreemptedError` when `abandon` says so; the rows then hold nothing past `starts`.
        """
        batch = Batch.of(list(slots), list(starts), tokens.shape[1])
        self.cache.batch = batch
        result = self._network(
            input_ids=tokens.to(self._device),
            attention_mask=batch.mask().to(self._device),
            position_ids=batch.positions.to(self._device),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=outputs,
        )
        logits: torch.Tensor = result.logits[:, :, : self.vocab_size]
        return logits.float().cpu()

    def _check(self, *_: object) -> None:
        if self.abandon is not None and self.abandon():
            raise PreemptedError("the step is no longer wanted")

    def _slots(self, config: Any) -> int:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        size = 2 * len(self.layers) * heads * dim * self.context * self._network.dtype.itemsize
        return max(_MIN_SLOTS, min(_MAX_SLOTS, _CACHE_BYTES // int(size)))
