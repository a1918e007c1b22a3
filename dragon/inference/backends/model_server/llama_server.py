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
"""They hold 98 % of nearly every distribution, as much as the wire form does."""


@dataclass(frozen=True, kw_only=True)
class LlamaServer(Dialect):
    """`letter` is the token of a letter, which is a whole character."""

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
            # It draws the likeliest token, the one most often drafted. The probabilities it reports
            # are those before anything is cut off.
            "temperature": 0,
            "cache_prompt": True,
            "return_tokens": True,
            "stream": True,
        }

    def spelled(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        """As `Dialect.spelled`.

        The server reports nothing for a token that is part of a character. So it is forced to write
        a letter; the probabilities are those without the bias.
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
