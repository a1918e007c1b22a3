"""What the engine steps: a language model over slots, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from dragon.errors import InvalidRequestError
from dragon.inference.backends.slots import Slots

PIECE = 512
"""Tokens of a prompt that a row is fed at once: other answers go on between two pieces."""

WHOLE_ANSWERS = "aggregation sequencewise", "use aggregation oneway, coupled or local"
"""What needs every token's probability, and what to do without them."""


class KV(Protocol):
    """Keys and values of the tokens a row begins with."""

    def pack(self) -> bytes:
        """As the link carries them."""
        ...

    def dump(self) -> bytes:
        """As a file keeps them, to the bit."""
        ...


class KVAccess(Protocol):
    """Keys and values of a row's first tokens, which can be kept and sent."""

    @property
    def fingerprint(self) -> str:
        """Names all that the bits of keys and values depend on."""
        ...

    def holds(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether a row that begins with these tokens finds theirs in memory."""
        ...

    def read(self, slot: int, tokens: int) -> KV:
        """A copy of those of the `tokens` tokens that a row has been fed."""
        ...

    def write(self, slot: int, tokens: Sequence[int], kv: KV | bytes) -> None:
        """Let a row begin with tokens whose were computed before, or as `KV.pack` made them."""
        ...

    def parse(self, data: bytes) -> KV:
        """What `KV.dump` made; raises `ValueError` where it is damaged."""
        ...

    def kv_bytes(self, tokens: int) -> int:
        """What those of so many tokens take here."""
        ...

    def packed_bytes(self, tokens: int) -> int:
        """What `KV.pack` makes of so many tokens."""
        ...


def never() -> bool:
    """Nothing cancels it."""
    return False


class Backend(Protocol):
    """Weights and slots. Not thread-safe: the engine's thread alone runs it.

    A backend that is not `full` names the likeliest tokens of each position only. In one that is
    `parallel` a step of several positions takes about as long as one of a single one. `kv` is None
    where keys and values stay inside.
    """

    name: str
    vocab_size: int
    context: int
    full: bool
    parallel: bool

    @property
    def weights(self) -> str:
        """Names configuration and weights, as far as they are known.

        Models that share it, and have keys and values, make the same ones.
        """
        ...

    @property
    def cache(self) -> Slots:
        """Its slots."""
        ...

    @property
    def kv(self) -> KVAccess | None:
        """Access to keys and values."""
        ...

    @property
    def quotes(self) -> bool:
        """Whether it answers by quotes alone, as its configuration says."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a text."""
        ...

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        """Let rows begin in slots just taken: with the model's adapter, if there is one, or not."""
        ...

    def feed(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        """Feed `tokens` int64 [B, Q] of prompts to rows at `starts`, by the time of `forward`.

        The first `forward` after it ends the prompts. Raises `PreemptedError` as `forward` does.
        """
        ...

    def forward(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        """Feed `tokens` int64 [B, Q] to rows at `starts`; the last logits, float32 [B, outputs, V].

        Where the backend is not `full`, the logit of a token it does not name is -inf. Raises
        `PreemptedError` once `cancelled` says so; the rows then hold nothing past `starts`.
        """
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


def require_full(model: Backend, wanted: str, instead: str) -> None:
    """Raises `InvalidRequestError` where `wanted` needs more than the likeliest tokens."""
    if not model.full:
        raise InvalidRequestError(
            f"{wanted} needs the probability of every token, and {model.name} names the likeliest "
            f"only: {instead}, or use a model that torch runs"
        )
