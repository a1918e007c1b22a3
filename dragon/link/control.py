"""Control messages of the link, apart from those of a session: JSON, validated on arrival.

`Hello` is the first message each way. `dragon.link.registry` says who sends what.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dragon.errors import DragonError, HandshakeError, OverloadedError
from dragon.inference.fairness import LANES
from dragon.inference.rows import Begins
from dragon.localizable import Localizable, one_line
from dragon.protocol.aggregator_policy import Schedule
from dragon.protocol.messages import MAX_TOKENS, Token, Tokens
from dragon.sampling import noise
from dragon.sampling.mixture import LOG_H_LIMIT
from dragon.sampling.params import MAX_RESCORE_EVERY, MAX_SLOPE, Mode, Sampling

PROTOCOL_VERSION = 13
MAX_CONTROL_BYTES = 1 << 20
MAX_QUERY = 4096
MAX_PROBE = 1 << 18
MAX_RETRY_S = 24 * 60 * 60
_LONGEST = 1000  # characters of a fault
_NAME = 100  # characters shown of a model's name

Text = Annotated[str, Field(max_length=64 * 1024)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
Value = Annotated[str, Field(max_length=_LONGEST)] | Number


class Control(BaseModel):
    """Base of all control messages: no unknown fields, no coercion, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Hello(Control):
    """The sender's version and model, and the fingerprints of what both sides must share.

    Another version's hello may have other fields; it is parsed all the same, so that the version
    can be compared.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    version: int = PROTOCOL_VERSION
    tokenizer: Text = ""
    noise: Text = Field(default_factory=noise.fingerprint)
    relevance: Text = ""
    model: Text = ""


def check_hello(own: Hello, other: Hello) -> None:
    """Raises `HandshakeError`, saying what to change, if the two sides are incompatible."""
    if own.version != other.version:
        reason = Localizable(
            f"the other side speaks protocol version {other.version}, this one {own.version}: "
            "run the same release on both",
            "handshake.version",
        )
    elif own.tokenizer != other.tokenizer:
        reason = Localizable(
            f"the models have different tokenizers or chat templates ({own.model} here, "
            f"{one_line(other.model, _NAME)} there): set DRAGON_MODEL to models of one family "
            "on both sides",
            "handshake.tokenizer",
        )
    elif own.relevance != other.relevance:
        reason = Localizable(
            "the sides measure relevance differently: set DRAGON_EMBEDDER and DRAGON_RERANKER "
            "alike on both, and run the same release",
            "handshake.relevance",
        )
    elif own.noise != other.noise:
        reason = Localizable(
            "the sides do not compute the same noise: run the same release of DRAGON and NumPy",
            "handshake.noise",
        )
    else:
        return
    raise HandshakeError(reason)


class Asking(Control):
    """Everything the cloud needs to build rows like the device's: documents, prompt, sampling.

    With `judged`, the query is a question, and only documents that answer it take part; without, it
    is a text, and documents that may continue it do. `slope`, in nats per unit of cosine, weighs
    the documents of a text to continue, and re-scoring. The answer begins with the `premise`, which
    the query leans on.
    """

    conversation: Tokens
    raw: bool
    begins: Begins = Begins.TURNS
    query: Text
    premise: Tokens = ()
    judged: bool = True
    top_k: Annotated[int, Field(ge=0, le=32)]
    rescore_every: Annotated[int, Field(ge=0, le=MAX_RESCORE_EVERY)] = 0
    slope: Annotated[float, Field(ge=0, le=MAX_SLOPE)] = 0.0
    sampling: Sampling = Sampling()

    def largest_token(self) -> int:
        biased = (token for token, _ in self.sampling.logit_bias)
        return max((*self.conversation, *self.premise, *biased), default=0)


class Open(Asking):
    """Begin an answer. With `joint` false it is a rejoin: wait for `join`.

    With `details` the drafts come with the shares of the cloud's rows. A device's callers with
    different `lane`s take turns at the peer.
    """

    mode: Mode
    max_tokens: Annotated[int, Field(gt=0, le=MAX_TOKENS)]
    catch_up: bool
    schedule: Schedule = Schedule.GREEDY
    details: bool = False
    lane: Annotated[int, Field(ge=0, lt=LANES)] = 0
    committed: Tokens = ()
    joint: bool = True

    def largest_token(self) -> int:
        return max(super().largest_token(), *self.committed, 0)


class PublicDocument(Control):
    """A passage of the public corpus that the cloud conditions on."""

    id: str
    title: Text
    text: Text
    score: float
    weight: float


class Ready(Control):
    """The cloud has found its documents; `horizon` is how many tokens its context takes.

    `log_h` is how relevant its documents are to the question, as in a draft. `unsearched` is how
    many parts of its corpus were not searched.
    """

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]
    horizon: Annotated[int, Field(ge=0)]
    log_h: Annotated[int, Field(ge=-LOG_H_LIMIT, le=LOG_H_LIMIT)]
    unsearched: Annotated[int, Field(ge=0)] = 0


class Fetch(Control):
    """Send documents instead of taking part; with `weights`, also their KV by that model.

    `weights` is `LanguageModel.weights`; `raw` says which kind of row the KV is for.
    """

    query: Text
    top_k: Annotated[int, Field(ge=0, le=32)]
    raw: bool
    weights: Text | None = None


class Fetched(Control):
    """The requested documents; their KV follows in binary frames, in this order."""

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]


class ScoreText(Asking):
    """Score `text` after `conversation`: send the full distribution of each of its positions.

    Documents are chosen to leave room for an answer of `max_tokens` to a prompt of `prompt` tokens.
    """

    text: Annotated[tuple[Token, ...], Field(min_length=1, max_length=MAX_TOKENS)]
    prompt: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    max_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]

    def largest_token(self) -> int:
        return max(super().largest_token(), *self.text)


class Scoring(Control):
    """The cloud scores with these documents in `rows` rows; binary distributions follow."""

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]
    rows: Annotated[int, Field(ge=1, le=32)]


class ScoreTaken(Control):
    """The device has taken one more distribution, so the cloud may send another."""


class Close(Control):
    """The answer is over on the device: finished, stopped or failed."""

    reason: Text


class Fault(Control):
    """Something failed. On a stream only that answer is lost, on the link all of them are.

    The message is English; code and values are those of a `Localizable`, if it is one. With
    `retry_s` a stream was refused for lack of room; the device may ask again after that many
    seconds. A fault of another version is parsed, too: it says which version that is.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    code: Text
    message: Text
    values: Annotated[dict[str, Value], Field(max_length=8)] = {}
    retry_s: Annotated[int, Field(ge=1, le=MAX_RETRY_S)] | None = None

    @classmethod
    def of(cls, error: DragonError) -> Fault:
        message, code = error.message, error.code
        values: dict[str, str | int] = {}
        if isinstance(message, Localizable):
            code = message.code
            for name, value in message.values.items():
                values[name] = value if isinstance(value, int) else str(value)[:_LONGEST]
        retry_s = error.retry_s if isinstance(error, OverloadedError) else None
        return cls(code=code, message=str(message)[:_LONGEST], values=values, retry_s=retry_s)

    @property
    def reason(self) -> Localizable:
        """The reason to show; a code that a reader does not know stays in English."""
        values = {
            name: one_line(value, _LONGEST) if isinstance(value, str) else value
            for name, value in self.values.items()
        }
        return Localizable(one_line(self.message, _LONGEST), self.code, values)


class Ping(Control):
    """Asks for a pong with the same number."""

    number: Number


class Pong(Control):
    """Answers a ping. `load` is the fraction of the cloud's slots for answers that are taken."""

    number: Number
    load: Annotated[float, Field(ge=0, le=1)] = 0.0


class Draining(Control):
    """The sender will open or accept no more answers on this connection; it finishes current ones.

    A peer that is shutting down sends it, and accepts answers until the device, which has another
    connection by then, sends it in turn.
    """


class Probe(Control):
    """Padding that carries no data; the device's asks for `reply` bytes back."""

    payload: Annotated[str, Field(max_length=MAX_PROBE)] = ""
    reply: Annotated[int, Field(ge=0, le=MAX_PROBE)] = 0
