"""How to ask a model server to continue a text, and how it reports each position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dragon.errors import ModelServerError
from dragon.inference.tokenizer import Tokenizer


@dataclass(frozen=True)
class Position:
    """The likeliest tokens of a position with their log-probabilities, and the token drawn there.

    `drawn` is None if the server does not say clearly which token it was.
    """

    tokens: list[int]
    logprobs: list[float]
    drawn: int | None


class UntoldError(Exception):
    """The server drew a token without saying which, and continued."""


@dataclass(frozen=True, kw_only=True)
class Dialect(ABC):
    """A server's way to complete texts.

    It names the `likeliest` tokens, of texts of at most `context` tokens, and writes `slots` texts
    at once. `one_place`: the server keeps what it has computed for a text in the slot where it
    writes it, so a stream must end there before the text can go on in another slot.
    """

    path: ClassVar[str]
    one_place: ClassVar[bool]
    model: str
    context: int
    likeliest: int
    slots: int

    @abstractmethod
    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        """The body of a request that streams the `ahead` tokens after a text.

        Raises `ModelServerError` for a text that cannot be sent.
        """

    def spelled(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        """A body that makes the server report a position it withheld; None if there is none."""
        return None

    @abstractmethod
    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        """The positions in a stream's event after `told` earlier ones, and whether it is the last.

        Raises `UntoldError`, and `LookupError`, `TypeError` or `ValueError` for a malformed event.
        """


LIKELIEST = 256
"""So many tokens hold 98 % of nearly every distribution, as much as the wire form does."""


@dataclass(frozen=True, kw_only=True)
class LlamaServer(Dialect):
    """llama.cpp's server, token ids in and out.

    `letter` is the token of a letter, which is a whole character.
    """

    path = "/completion"
    one_place = True
    likeliest: int = LIKELIEST
    letter: int

    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
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
        """As `Dialect.spelled`: the server reports nothing for a token that is part of a character.

        So it is forced to write a letter; the probabilities are those without the bias.
        """
        return {**self.body(tokens, 1), "logit_bias": [[self.letter, 1e6]]}

    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        if event["stop"]:
            return [], True
        if event["tokens_predicted"] != told + 1:
            raise UntoldError
        (named,) = event["completion_probabilities"]
        likeliest = [each for each in named["top_logprobs"] if each["logprob"] is not None]
        tokens = [each["id"] for each in likeliest]
        return [Position(tokens, [each["logprob"] for each in likeliest], named["id"])], False


NUMBERED = "token_id:"
"""How vLLM writes a token as text: `token_id:5`."""


@dataclass(frozen=True, kw_only=True)
class OpenAIStyle(Dialect):
    """Completions as OpenAI defined them: vLLM, SGLang, Ray Serve LLM and others.

    `takes_ids`: prompts are token ids, else text that is tokenized into the same tokens. Names of
    tokens are ids, or else their text; a token that shares its text has no name.
    """

    path = "/v1/completions"
    one_place = False
    slots: int = 64
    tokenizer: Tokenizer
    takes_ids: bool

    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        prompt = list(tokens) if self.takes_ids else self.tokenizer.text_of(tokens)
        if prompt is None:
            raise ModelServerError(
                "the model server takes text only, and no text is cut into exactly these tokens: "
                "run the model on a server that takes token ids, such as llama-server or vLLM"
            )
        return {
            "model": self.model,
            "prompt": prompt,
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
        positions = []
        for named, token in zip(likeliest, drawn, strict=True):
            found = {self.token(name): value for name, value in named.items()}
            found.pop(None, None)
            positions.append(
                Position([t for t in found if t is not None], [*found.values()], token)
            )
        return positions, ended

    def token(self, name: str) -> int | None:
        """The token that a server's name stands for; None if there is no unique one."""
        if name.startswith(NUMBERED):
            return int(name.removeprefix(NUMBERED))
        return self.tokenizer.by_text.get(name)
