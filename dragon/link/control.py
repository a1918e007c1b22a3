"""Control messages of the link, beside those of a session: JSON, validated on arrival.

`Hello` is the first message each way. Who sends what is in `dragon.link.registry`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dragon.errors import DragonError, OverloadedError
from dragon.inference.fairness import LANES
from dragon.inference.rows import Begins
from dragon.localizable import Localizable
from dragon.protocol.aggregator_policy import Schedule
from dragon.protocol.messages import MAX_TOKENS, Token, Tokens
from dragon.sampling import noise
from dragon.sampling.mixture import LOG_H_LIMIT
from dragon.sampling.params import MAX_RESCORE_EVERY, Mode, Sampling

PROTOCOL_VERSION = 12
MAX_CONTROL_BYTES = 1 << 20
MAX_QUERY = 4096
MAX_PROBE = 1 << 18
MAX_RETRY_S = 24 * 60 * 60
_LONGEST = 1000  # characters that a fault says

Text = Annotated[str, Field(max_length=64 * 1024)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
Value = Annotated[str, Field(max_length=_LONGEST)] | Number


class Control(BaseModel):
    """Base of all control messages: nothing unknown, nothing coerced, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Hello(Control):
    """Who is speaking, and the fingerprints of what both sides must share.

    Another version's hello may have other fields: it is read nevertheless, to be told apart.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    version: int = PROTOCOL_VERSION
    tokenizer: Text = ""
    noise: Text = Field(default_factory=noise.fingerprint)
    relevance: Text = ""
    model: Text = ""


class Asking(Control):
    """What the cloud needs to have rows like the device's: documents, prompt, sampling.

    Only documents take part that answer the query or, where it is not `judged` since it is no
    question, that may go on with a text.
    """

    conversation: Tokens
    raw: bool
    begins: Begins = Begins.TURNS
    query: Text
    judged: bool = True
    top_k: Annotated[int, Field(ge=0, le=32)]
    rescore_every: Annotated[int, Field(ge=0, le=MAX_RESCORE_EVERY)] = 0
    sampling: Sampling = Sampling()

    def largest_token(self) -> int:
        """The largest token id in it."""
        biased = (token for token, _ in self.sampling.logit_bias)
        return max((*self.conversation, *biased), default=0)


class Open(Asking):
    """Begin an answer. With `joint` false it is a rejoin: wait for `join`.

    With `details` its drafts come with the shares of its rows. Answers of a device's callers that
    differ in `lane` take turns at the peer.
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
        """As in `Asking`, and in the committed text."""
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

    `log_h` is how relevant its documents are to the question, as in a draft. `unsearched` is of how
    many parts its corpus was searched without.
    """

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]
    horizon: Annotated[int, Field(ge=0)]
    log_h: Annotated[int, Field(ge=-LOG_H_LIMIT, le=LOG_H_LIMIT)]
    unsearched: Annotated[int, Field(ge=0)] = 0


class Fetch(Control):
    """Send documents instead of taking part; with `weights`, also the KV that model makes of them.

    `weights` is `LanguageModel.weights`; `raw` says which kind of row the KV is for.
    """

    query: Text
    top_k: Annotated[int, Field(ge=0, le=32)]
    raw: bool
    weights: Text | None = None


class Fetched(Control):
    """The documents asked for; their KV follows in binary frames, in this order."""

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]


class ScoreText(Asking):
    """Score `text` after `conversation`: send the full distribution of each of its positions.

    Documents are chosen to leave room for an answer of `max_tokens` to a prompt of `prompt` tokens.
    """

    text: Annotated[tuple[Token, ...], Field(min_length=1, max_length=MAX_TOKENS)]
    prompt: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    max_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]

    def largest_token(self) -> int:
        """As in `Asking`, and in the text."""
        return max(super().largest_token(), *self.text)


class Scoring(Control):
    """The cloud scores with these documents, in so many rows; its distributions follow, binary."""

    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]
    rows: Annotated[int, Field(ge=1, le=32)]


class ScoreTaken(Control):
    """The device has taken one more distribution: the cloud may send another."""


class Close(Control):
    """The answer is over on the device: finished, stopped or failed."""

    reason: Text


class Fault(Control):
    """Something failed: of a stream only that answer is lost, of the link all of it.

    The message is English; code and values are those of a `Localizable`, if it is one. With
    `retry_s` a stream was turned away for want of room, and may be asked for again after so many
    seconds. Another version's fault is read, too: it says which one.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    code: Text
    message: Text
    values: Annotated[dict[str, Value], Field(max_length=8)] = {}
    retry_s: Annotated[int, Field(ge=1, le=MAX_RETRY_S)] | None = None

    @classmethod
    def of(cls, error: DragonError) -> Fault:
        """The fault that an error is to the other side."""
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
        """What is said of it; a code that a reader does not know is left in English."""
        return Localizable(self.message, self.code, self.values)


class Ping(Control):
    """Asks for a pong with the same number."""

    number: Number


class Pong(Control):
    """Answers a ping. `load` is the share of the cloud's places for answers that are taken."""

    number: Number
    load: Annotated[float, Field(ge=0, le=1)] = 0.0


class Draining(Control):
    """Its sender will open or take no more answers on this connection; those it has are written on.

    A peer that is to end sends it, and takes answers until the device, which has another connection
    by then, sends it in its turn.
    """


class Probe(Control):
    """Bytes that say nothing; a device's asks for as many back as `reply` says."""

    payload: Annotated[str, Field(max_length=MAX_PROBE)] = ""
    reply: Annotated[int, Field(ge=0, le=MAX_PROBE)] = 0
