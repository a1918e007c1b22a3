"""The interface of a backend: a language model over slots, which the engine steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from dragon.errors import InvalidRequestError
from dragon.inference.backends.slots import Slots

PIECE = 512
"""Prompt tokens that a row is fed at once: other answers continue between two pieces."""

WHOLE_ANSWERS = "aggregation sequencewise", "use aggregation oneway, coupled or local"
"""The mode that needs every token's probability, and the modes to use instead."""


class KV(Protocol):
    """Keys and values of a row's first tokens."""

    def pack(self) -> bytes:
        """Encoded for the link."""

    def dump(self) -> bytes:
        """Encoded for a file, bit-exact."""


class KVAccess(Protocol):
    """Access to the keys and values of a row's first tokens, to store and send them.

    `fingerprint` identifies everything that their bits depend on.
    """

    @property
    def fingerprint(self) -> str: ...

    def holds(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether a row that begins with these tokens finds their keys and values in memory."""

    def read(self, slot: int, tokens: int) -> KV:
        """A copy of the keys and values of the first `tokens` tokens that a row has been fed."""

    def write(self, slot: int, tokens: Sequence[int], kv: KV | bytes) -> None:
        """Begin a row with tokens whose `kv` was computed before, or is as `KV.pack` made it."""

    def parse(self, data: bytes) -> KV:
        """The inverse of `KV.dump`; raises `ValueError` if the data is damaged."""

    def packed_bytes(self, tokens: int) -> int:
        """How many bytes `KV.pack` makes of this many tokens."""


def never() -> bool:
    """Never cancelled."""
    return False


class Backend(Protocol):
    """Weights and slots. Not thread-safe: only the engine's thread runs it.

    A backend that is not `full` names only the likeliest tokens of each position. With one that is
    `parallel`, a step of several positions takes about as long as a step of one. One that `quotes`
    answers by quotes alone, as its configuration says. `ends` are end tokens. `kv` is None if keys
    and values cannot be accessed. `weights` identifies configuration and weights, as far as they
    are known: models with the same value, and with `kv`, compute the same keys and values.
    """

    name: str
    vocab_size: int
    context: int
    full: bool
    parallel: bool
    quotes: bool
    ends: frozenset[int]

    @property
    def weights(self) -> str: ...

    @property
    def cache(self) -> Slots: ...

    @property
    def kv(self) -> KVAccess | None: ...

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        """Begin rows in slots just acquired, with the model's adapter if it has one, or without."""

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

        Without outputs more of the rows' prompts is to follow, and the backend may compute these
        tokens later. The logit of a token that a backend does not name is -inf. Raises
        `PreemptedError` once `cancelled` returns True; the rows then hold nothing past `starts`.
        """

    def close(self) -> None:
        """Free the backend's resources."""


def require_full(model: Backend, wanted: str, instead: str) -> None:
    """Raises `InvalidRequestError` if `wanted` needs more than the likeliest tokens."""
    if not model.full:
        raise InvalidRequestError(
            f"{wanted} needs the probability of every token, and {model.name} names the likeliest "
            f"only: {instead}, or use a model that torch runs"
        )
