"""Control messages of the link: JSON text frames, validated on arrival.

`hello` is the first frame each way. `open`, `join`, `close`, `fetch`, `score_text` and
`score_taken` come from the device; `ready`, `fetched`, `scoring`, `resync` and `score` from the
cloud; `candidate`, `error`, `ping` and `pong` from either. `probe` is a device's that measures the
link, and the cloud's answer to it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dragon.errors import FrameError
from dragon.inference.adjustment import Adjustment
from dragon.inference.logprobs import MAX_TOP
from dragon.protocol.aggregator_policy import Schedule
from dragon.sampling import noise
from dragon.sampling.mixture import LOG_H_LIMIT
from dragon.sampling.params import (
    MAX_BIAS,
    MAX_BIASED,
    MAX_PENALTY,
    MAX_RESCORE_EVERY,
    MAX_TEMPERATURE,
    Mode,
    Sampling,
)

PROTOCOL_VERSION = 4
MAX_CONTROL_BYTES = 1 << 20
MAX_TOKENS = 1 << 16
MAX_QUERY = 4096
MAX_PROBE = 1 << 18

Token = Annotated[int, Field(ge=0, lt=1 << 31)]
Tokens = Annotated[tuple[Token, ...], Field(max_length=MAX_TOKENS)]
Generation = Annotated[int, Field(ge=0, lt=1 << 32)]
Incarnation = Annotated[int, Field(ge=0, lt=1 << 16)]
Text = Annotated[str, Field(max_length=64 * 1024)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
LogLikelihood = Annotated[float, Field(le=0)]
Bias = tuple[Token, Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]]
Penalty = Annotated[float, Field(ge=-MAX_PENALTY, le=MAX_PENALTY)]


class Control(BaseModel):
    """Base of all control messages: nothing unknown, nothing coerced, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Hello(Control):
    """Who is speaking, and the fingerprints of what both sides must share.

    Another version's hello may have other fields: it is read nevertheless, to be told apart.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    kind: Literal["hello"] = "hello"
    version: int = PROTOCOL_VERSION
    tokenizer: Text = ""
    noise: Text = Field(default_factory=noise.fingerprint)
    relevance: Text = ""
    model: Text = ""


class Asking(Control):
    """What the cloud needs to have rows like the device's: documents, prompt, adjustments.

    Only documents take part that answer the query or, where it is not `judged` since it is no
    question, that may go on with a text.
    """

    generation: Generation
    conversation: Tokens
    raw: bool
    query: Text
    judged: bool = True
    top_k: Annotated[int, Field(ge=0, le=32)]
    rescore_every: Annotated[int, Field(ge=0, le=MAX_RESCORE_EVERY)] = 0
    logit_bias: Annotated[tuple[Bias, ...], Field(max_length=MAX_BIASED)] = ()
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0

    @property
    def adjustment(self) -> Adjustment | None:
        """What changes the rows' logits; raises `InvalidRequestError` for a contradiction."""
        return Adjustment.asked(
            Sampling(
                logit_bias=self.logit_bias,
                presence_penalty=self.presence_penalty,
                frequency_penalty=self.frequency_penalty,
            )
        )


class Open(Asking):
    """Begin an answer. With `joint` false it is a rejoin: wait for `join`.

    With `details` the cloud tells of each token, and of so many of its likeliest ones.
    """

    kind: Literal["open"] = "open"
    mode: Mode
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)]
    stream: Annotated[int, Field(ge=0, lt=1 << 32)]
    max_tokens: Annotated[int, Field(gt=0, le=MAX_TOKENS)]
    catch_up: bool
    schedule: Schedule = Schedule.GREEDY
    details: Annotated[int, Field(ge=0, le=MAX_TOP)] | None = None
    committed: Tokens = ()
    joint: bool = True


class PublicDocument(Control):
    """A passage of the public corpus that the cloud conditions on."""

    id: str
    title: Text
    text: Text
    score: float
    weight: float


class Ready(Control):
    """The cloud has found its documents; `horizon` is how many tokens its context takes."""

    kind: Literal["ready"] = "ready"
    generation: Generation
    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]
    horizon: Annotated[int, Field(ge=0)]


class Fetch(Control):
    """Send documents instead of taking part; with `weights`, also the KV that model makes of them.

    `weights` is `LanguageModel.weights`; `raw` says which kind of row the KV is for.
    """

    kind: Literal["fetch"] = "fetch"
    generation: Generation
    query: Text
    top_k: Annotated[int, Field(ge=0, le=32)]
    raw: bool
    weights: Text | None = None


class Fetched(Control):
    """The documents asked for; their KV follows in binary frames, in this order."""

    kind: Literal["fetched"] = "fetched"
    generation: Generation
    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]


class ScoreAsked(Asking):
    """Score `text` after `conversation`: send the full distribution of each of its positions.

    Documents are chosen to leave room for an answer of `max_tokens` to a prompt of `prompt` tokens.
    """

    kind: Literal["score_text"] = "score_text"
    text: Annotated[tuple[Token, ...], Field(min_length=1, max_length=MAX_TOKENS)]
    prompt: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    max_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class Scoring(Control):
    """The cloud scores with these documents; its distributions follow in binary frames."""

    kind: Literal["scoring"] = "scoring"
    generation: Generation
    documents: Annotated[tuple[PublicDocument, ...], Field(max_length=32)]


class ScoreTaken(Control):
    """The device has taken one more distribution: the cloud may send another."""

    kind: Literal["score_taken"] = "score_taken"
    generation: Generation


class Joined(Control):
    """The device's tokens stand: the committed text is `[:base] + tail`."""

    kind: Literal["join"] = "join"
    generation: Generation
    incarnation: Incarnation
    base: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    tail: Tokens


class ResyncAsked(Control):
    """The cloud sees that the sides differ."""

    kind: Literal["resync"] = "resync"
    generation: Generation
    incarnation: Incarnation


class CandidateSent(Control):
    """Sequencewise: the sender's whole answer, and how likely it is under the sender."""

    kind: Literal["candidate"] = "candidate"
    generation: Generation
    incarnation: Incarnation
    tokens: Annotated[tuple[Token, ...], Field(min_length=1, max_length=MAX_TOKENS)]
    log_likelihood: LogLikelihood
    log_h: Annotated[int, Field(ge=-LOG_H_LIMIT, le=LOG_H_LIMIT)]


class CandidateScored(Control):
    """Sequencewise: how likely the device's candidate is under the cloud."""

    kind: Literal["score"] = "score"
    generation: Generation
    incarnation: Incarnation
    log_likelihood: LogLikelihood


class Close(Control):
    """The answer is over on the device: finished, stopped or failed."""

    kind: Literal["close"] = "close"
    generation: Generation
    reason: Text


class Fault(Control):
    """Something failed. With a generation only that one is lost, without it the link."""

    kind: Literal["error"] = "error"
    generation: Generation | None = None
    code: str
    message: Text


class Ping(Control):
    """Asks for a pong with the same number."""

    kind: Literal["ping"] = "ping"
    number: Number


class Pong(Control):
    """Answers a ping."""

    kind: Literal["pong"] = "pong"
    number: Number


class Probe(Control):
    """Bytes that say nothing; a device's asks for as many back as `reply` says."""

    kind: Literal["probe"] = "probe"
    payload: Annotated[str, Field(max_length=MAX_PROBE)] = ""
    reply: Annotated[int, Field(ge=0, le=MAX_PROBE)] = 0


SessionControl = Joined | ResyncAsked | CandidateSent | CandidateScored
AnyControl = (
    Hello
    | Open
    | Ready
    | Fetch
    | Fetched
    | ScoreAsked
    | Scoring
    | ScoreTaken
    | SessionControl
    | Close
    | Fault
    | Ping
    | Pong
    | Probe
)
_ADAPTER: TypeAdapter[AnyControl] = TypeAdapter(Annotated[AnyControl, Field(discriminator="kind")])


def encode(message: AnyControl) -> str:
    """The text frame of a control message."""
    return orjson.dumps(message.model_dump(mode="json")).decode()


def decode(frame: str) -> AnyControl:
    """The control message of a text frame; raises `FrameError` for anything else."""
    if len(frame) > MAX_CONTROL_BYTES:
        raise FrameError(f"a control frame has at most {MAX_CONTROL_BYTES} bytes")
    try:
        return _ADAPTER.validate_json(frame)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FrameError(f"not a control message: {where}: {first['msg']}") from error
