"""`/v1/completions` as OpenAI defined it: vLLM, SGLang, Ray Serve LLM and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragon.errors import ModelServerError
from dragon.inference.backends.model_server.dialect import Dialect, Position, raise_failed
from dragon.inference.tokenizer import Tokenizer

NUMBERED = "token_id:"
"""How vLLM writes a token as text: `token_id:5`."""


@dataclass(frozen=True, kw_only=True)
class OpenAIStyle(Dialect):
    """`takes_ids`: prompts are token ids, else text that is tokenized into the same tokens.

    Names of tokens are ids, or else their text; a token that shares its text has no name.
    """

    path = "/v1/completions"
    one_place = False
    slots: int = 64
    tokenizer: Tokenizer
    takes_ids: bool

    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        """As `Dialect.body`."""
        return {
            "model": self.model,
            "prompt": list(tokens) if self.takes_ids else self._text(tokens),
            "max_tokens": min(ahead, self.context + 1 - len(tokens)),
            "logprobs": self.likeliest,
            # It draws the likeliest token, the one most often drafted.
            "temperature": 0,
            "stream": True,
            # For vLLM and SGLang; others ignore these. An end token is a token like others, which
            # may be corrected.
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "ignore_eos": True,
        }

    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        """As `Dialect.positions`."""
        raise_failed(event)
        if not event["choices"]:  # token counts, at the end
            return [], False
        choice = event["choices"][0]
        ended = choice.get("finish_reason") is not None
        logprobs = choice.get("logprobs")
        if logprobs is None:
            return [], ended
        likeliest = logprobs["top_logprobs"]
        drawn = choice.get("token_ids") or ()
        if len(drawn) != len(likeliest):
            drawn = [self.token(name) for name in logprobs["tokens"]]
        return [self._position(*each) for each in zip(likeliest, drawn, strict=True)], ended

    def token(self, name: str) -> int | None:
        """The token that a server's name stands for; None if there is no unique one."""
        if name.startswith(NUMBERED):
            return int(name.removeprefix(NUMBERED))
        return self.tokenizer.by_text.get(name)

    def _position(self, likeliest: dict[str, float], drawn: int | None) -> Position:
        named = {self.token(name): value for name, value in likeliest.items()}
        named.pop(None, None)
        return Position([t for t in named if t is not None], list(named.values()), drawn)

    def _text(self, tokens: Sequence[int]) -> str:
        text = self.tokenizer.text_of(tokens)
        if text is None:
            raise ModelServerError(
                "the model server takes text only, and no text is cut into exactly these tokens: "
                "run the model on a server that takes token ids, such as llama-server or vLLM"
            )
        return text
