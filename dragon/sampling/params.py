"""The sampling parameters of a request: mode, temperature, nucleus, seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dragon.errors import InvalidRequestError

MAX_TEMPERATURE = 2.0
MAX_PENALTY = 2.0
MIN_REPETITION, MAX_REPETITION = 0.01, 2.0
MAX_GRAMMAR = 1 << 16  # characters
MAX_COUNT = 1 << 31  # exclusive bound of token counts
_RANGES = {
    "temperature": (0.0, MAX_TEMPERATURE),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (MIN_REPETITION, MAX_REPETITION),
    "presence_penalty": (-MAX_PENALTY, MAX_PENALTY),
    "frequency_penalty": (-MAX_PENALTY, MAX_PENALTY),
}
MAX_BIAS = 100.0
MAX_BIASED = 1024  # tokens
SEED_BITS = 64
STREAM_BITS = 32
MAX_RESCORE_EVERY = 1 << 12  # tokens
MAX_SLOPE = 60.0  # nats per unit of cosine: log h of 32 passages stays below the wire's 64 nats


class Mode(StrEnum):
    """How the two sides agree on a token: the aggregation mode.

    Other code reads its properties, so that only the rules name a mode.
    """

    ONEWAY = "oneway"
    COUPLED = "coupled"
    SPECULATIVE = "speculative"
    TOKENWISE = "tokenwise"
    EXCHANGE = "exchange"
    SEQUENCEWISE = "sequencewise"
    LOCAL = "local"
    CONTEXT = "context"
    CONTEXT_TEXT = "context_text"
    CONTEXT_KV = "context_kv"

    @property
    def joint(self) -> bool:
        """Whether the cloud peer takes part."""
        return self not in (Mode.LOCAL, Mode.CONTEXT) and not self.fetches

    @property
    def sends_up(self) -> bool:
        """Whether more than words of the answer leaves the device: distributions or verdicts."""
        return self.joint and self is not Mode.ONEWAY

    @property
    def waits(self) -> bool:
        """Whether a side waits until the other has written a whole answer."""
        return self is Mode.SEQUENCEWISE

    @property
    def needs_full_distributions(self) -> bool:
        """Whether a token's probability must be known even if it is outside the nucleus."""
        return self is Mode.SEQUENCEWISE

    @property
    def takes_any_sampling(self) -> bool:
        """Whether it is defined for any temperature and truncation, unlike Algorithm 1."""
        return self is not Mode.SPECULATIVE

    @property
    def concatenates(self) -> bool:
        """Whether all documents stand in one row, one after another."""
        return self in (Mode.CONTEXT, Mode.CONTEXT_TEXT)

    @property
    def fetches(self) -> bool:
        """Whether the cloud's documents are fetched to answer without the cloud."""
        return self in (Mode.CONTEXT_TEXT, Mode.CONTEXT_KV)

    @property
    def fetches_kv(self) -> bool:
        """Whether they are fetched with the keys and values that the cloud has computed."""
        return self is Mode.CONTEXT_KV


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of one answer; both sides hold the same ones.

    `temperature`, `min_p`, `top_k` (0 is no limit) and `top_p` act on the mixture of the two sides,
    never on one of them (`dragon.sampling.truncation`). `stream` tells the choices of one request
    apart: choices and prompts share a seed and differ in the stream, so that each gets its own
    noise. `logit_bias` (token and bias), the three penalties, `min_tokens` (no token ends the
    answer before that many) and `grammar` (which constrains the answer) adjust the logits of both
    sides' rows (`dragon.inference.adjustment`).

    Raises `InvalidRequestError` for a value out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stream: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    min_tokens: int = 0
    grammar: str = ""

    def __post_init__(self) -> None:
        for param, (least, most) in _RANGES.items():
            if not least <= (value := getattr(self, param)) <= most:
                raise InvalidRequestError(
                    f"{param} must lie between {least:g} and {most:g}, got {value}", param=param
                )
        if not 0.0 < self.top_p <= 1.0:
            raise InvalidRequestError(
                f"top_p must lie above 0 and at most at 1, got {self.top_p}", param="top_p"
            )
        for param in ("top_k", "min_tokens"):
            if not 0 <= getattr(self, param) < MAX_COUNT:
                raise InvalidRequestError(f"{param} must not be negative", param=param)
        if len(self.grammar) > MAX_GRAMMAR:
            raise InvalidRequestError(
                f"a grammar or schema may have at most {MAX_GRAMMAR} characters", param="grammar"
            )
        if not -(1 << (SEED_BITS - 1)) <= self.seed < 1 << SEED_BITS:
            raise InvalidRequestError("seed must fit into 64 bits", param="seed")
        if not 0 <= self.stream < 1 << STREAM_BITS:
            raise InvalidRequestError("too many choices in one request", param="n")
        if len(self.logit_bias) > MAX_BIASED:
            raise InvalidRequestError(
                f"logit_bias may name at most {MAX_BIASED} tokens", param="logit_bias"
            )
        if not all(token >= 0 and abs(bias) <= MAX_BIAS for token, bias in self.logit_bias):
            raise InvalidRequestError(
                f"a bias is of a token, and between -{MAX_BIAS:g} and {MAX_BIAS:g}",
                param="logit_bias",
            )
        if len({token for token, _ in self.logit_bias}) < len(self.logit_bias):
            raise InvalidRequestError("logit_bias names a token twice", param="logit_bias")

    @property
    def adjusts(self) -> bool:
        """Whether anything adjusts the rows' logits."""
        penalties = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty)
        others = self.logit_bias or self.min_tokens or self.grammar
        return penalties != (0.0, 0.0, 1.0) or bool(others)

    @property
    def quotable(self) -> bool:
        """Whether the answer may be a quotation: not if it has a format or a least length."""
        return not (self.grammar or self.min_tokens)

    @property
    def truncates(self) -> bool:
        """Whether truncation drops any tokens of the mixture."""
        return self.top_p < 1.0 or self.top_k > 0 or self.min_p > 0.0
