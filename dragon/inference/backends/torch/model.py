"""A causal language model over slots: any decoder with `transformers`' attention interface."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from dragon.errors import ConfigurationError, PreemptedError
from dragon.inference.backends import backend
from dragon.inference.backends.backend import PIECE, never
from dragon.inference.backends.slots import BLOCK, MAX_CONTEXT, blocks_of
from dragon.inference.backends.torch.cache import BATCH, SlotCache, TensorKV

_ATTENTION = "slots"
_CACHE_BYTES = 2 << 30
_SLOTS = 256


class LanguageModel:
    """Weights and slots. Not thread-safe: only the engine's thread runs it.

    A forward checks before every layer whether it is cancelled.
    """

    full = True
    parallel = True

    def __init__(self, network: Any, vocab_size: int, name: str) -> None:
        config = network.config.get_text_config()
        if any("sliding" in kind for kind in getattr(config, "layer_types", None) or ()):
            raise ConfigurationError(f"{name}: models with sliding attention are not supported")
        if getattr(config, "attn_logit_softcapping", None) is not None:
            raise ConfigurationError(f"{name}: models that cap attention are not supported")
        if config.vocab_size < vocab_size:
            raise ConfigurationError(f"{name}: the tokenizer has more tokens than the model")
        network.set_attn_implementation(_ATTENTION)
        decoder = network.get_decoder()
        if config._attn_implementation != _ATTENTION or not hasattr(decoder, "layers"):
            raise ConfigurationError(
                f"{name}: {config.model_type} models, with attention or layers of their own kind, "
                "are not supported"
            )
        own = getattr(network.config, "dragon", None) or {}
        self.quotes: bool = own.get("answers") == "quotes"
        ends = network.config.eos_token_id
        self.ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.name = name
        # Models of one family pad their vocabularies differently: only real tokens count.
        self.vocab_size = vocab_size
        self.context = min(MAX_CONTEXT, int(config.max_position_embeddings))
        self._network = network
        self._device = network.device
        self.layers = list(decoder.layers)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._kv_shape = len(self.layers), int(heads), int(dim)
        # Two answers of full length, or as many shorter ones as the memory holds.
        room = max(2 * self.context, _CACHE_BYTES // self.kv_bytes(1))
        room = min(room, _SLOTS * BLOCK * blocks_of(self.context))
        width = int(heads) * int(dim) * int(network.dtype.itemsize)
        self.cache = SlotCache(len(self.layers), _SLOTS, self.context, room, width, self._device)
        for layer in self.layers:
            layer.register_forward_pre_hook(check)
        on_cpu = self._device.type == "cpu" and network.dtype == torch.float32
        self._by_column = on_cpu and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        if self._by_column:
            _store_by_column(decoder)

    @classmethod
    def load(
        cls, path: str | Path, vocab_size: int, *, dtype: str = "float32", device: str = "cpu"
    ) -> LanguageModel:
        """Load from a directory or a hub name. Raises `ConfigurationError` on failure."""
        try:
            network = AutoModelForCausalLM.from_pretrained(
                str(path), dtype=getattr(torch, dtype), attn_implementation="sdpa"
            )
            network = network.to(device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"no model could be loaded from {path}: {error}") from error
        return cls(network, vocab_size, Path(path).name)

    @property
    def kv(self) -> LanguageModel:
        return self

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        """There is no adapter."""

    @torch.inference_mode()
    def forward(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        """As `Backend.forward`; computed at once and unpadded, so the bits are always the same."""
        batch = self.cache.batch(slots, starts, tokens.shape[1], self._network.dtype, cancelled)
        BATCH.set(batch)
        result = self._network(
            input_ids=tokens.to(self._device),
            position_ids=batch.positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=max(1, outputs),  # 0 means all
        )
        # Copied even if none is wanted, which waits for a GPU: otherwise the forwards of a prompt
        # would run ahead of their turns and of cancellation.
        logits: torch.Tensor = result.logits[:, :, : self.vocab_size].float().cpu()
        return logits[:, :outputs]

    def holds(self, slot: int, tokens: Sequence[int]) -> bool:
        """Never: a row's memory is released with it."""
        return False

    def parse(self, data: bytes) -> TensorKV:
        return TensorKV.load(data)

    @torch.inference_mode()
    def read(self, slot: int, tokens: int) -> TensorKV:
        return self.cache.read(slot, tokens)

    @torch.inference_mode()
    def write(self, slot: int, tokens: Sequence[int], kv: backend.KV | bytes) -> None:
        if isinstance(kv, bytes):
            kv = TensorKV.unpack(kv, *self._kv_shape)
        assert isinstance(kv, TensorKV), "keys and values of another backend"
        target = {"device": self._device, "dtype": self._network.dtype}
        self.cache.write(slot, TensorKV(kv.keys.to(**target), kv.values.to(**target)))

    def kv_bytes(self, tokens: int) -> int:
        """Bytes that the keys and values of this many tokens take in the cache."""
        return 2 * math.prod(self._kv_shape) * tokens * int(self._network.dtype.itemsize)

    def packed_bytes(self, tokens: int) -> int:
        return 2 * math.prod(self._kv_shape) * tokens * torch.bfloat16.itemsize

    @cached_property
    def weights(self) -> str:
        """Identifies configuration and weights, precision included."""
        digest = hashlib.sha256(self._network.config.to_json_string().encode())
        for name, tensor in self._network.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.flatten().view(torch.uint8).cpu().numpy())
        return digest.hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        parts = (
            self.weights,
            torch.__version__,
            transformers.__version__,
            str(self._device),
            torch.backends.cpu.get_cpu_capability(),
            str(torch.get_num_threads()),  # a sum's order depends on it
            str(self._by_column),
            str(PIECE),
        )
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def close(self) -> None:
        """Nothing to free: the memory goes with the object."""


def check(*_: object) -> None:
    """Raises `PreemptedError` if the forward in progress is cancelled."""
    if BATCH.get().cancelled():
        raise PreemptedError("the step is no longer wanted")


def _store_by_column(decoder: torch.nn.Module) -> None:
    """Store linear layers' weights [out, in] with the numbers of an input side by side.

    MKL repacks weights stored the other way for each product with several rows, which takes a fifth
    of a prefill. The head is excluded: its weights are usually the embedding's, which is read token
    by token.
    """
    for module in decoder.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of queries [B, heads, Q, dim] over all that is stored: [B, Q, heads, dim].

    One call per run of rows, over keys and values where they lie: copying them side by side first
    would take longer than the rest of a step if texts are long.

    Raises `ConfigurationError` for a position bias: positions differ from slot to slot.
    """
    if options.get("position_bias") is not None:
        raise ConfigurationError("models with a position bias in attention are not supported")
    # The CPU's kernel supports heads that share keys and values; `transformers` copies these for
    # each head if there are several queries.
    shares = query.device.type == "cpu" and query.shape[2] > 1
    call = _shared if shares else sdpa_attention_forward
    parts = []
    for run in BATCH.get().runs:
        keys, values, mask = run.read(key), run.read(value), run.mask.to(query.dtype)
        parts.append(call(module, query[run.rows], keys, values, mask, **options)[0])
    return torch.cat(parts), None


def _shared(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    result = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=options.get("scaling"), enable_gqa=True
    )
    return result.transpose(1, 2), None


AttentionInterface.register(_ATTENTION, attend)
