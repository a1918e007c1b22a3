"""llama.cpp's server: `/completion`, token ids in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragon.inference.backends.model_server.dialect import (
    Dialect,
    Position,
    UntoldError,
    raise_failed,
)

LIKELIEST = 256
"""As many as in process: they hold 98 % of nearly every distribution, as much as the wire does."""


@dataclass(frozen=True, kw_only=True)
class LlamaServer(Dialect):
    """`letter` is the token of a letter, which is whole by itself."""

    path = "/completion"
    one_place = True
    likeliest: int = LIKELIEST
    letter: int

    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        """As `Dialect.body`; the server finds the slot that holds most of the text."""
        return {
            "prompt": list(tokens),
            "model": self.model,
            "n_predict": ahead,
            "n_probs": self.likeliest,
            # What it draws is what is drafted most often: the likeliest token. What it says of a
            # position is said before anything is cut off.
            "temperature": 0,
            "cache_prompt": True,
            "return_tokens": True,
            "stream": True,
        }

    def spelled(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        """As `Dialect.spelled`.

        Of a token that is half a character it tells nothing. So it is made to say a letter; these
        probabilities are those without the bias.
        """
        return {**self.body(tokens, 1), "logit_bias": [[self.letter, 1e6]]}

    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        """As `Dialect.positions`."""
        raise_failed(event)
        if event["stop"]:
            return [], True
        if event["tokens_predicted"] != told + 1:
            raise UntoldError
        (named,) = event["completion_probabilities"]
        likeliest = [each for each in named["top_logprobs"] if each["logprob"] is not None]
        tokens = [each["id"] for each in likeliest]
        return [Position(tokens, [each["logprob"] for each in likeliest], named["id"])], False
