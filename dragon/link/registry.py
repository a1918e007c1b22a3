"""Every kind of frame on the link: its name, its message, who sends it, and its encoding.

Each message has one class, which both sides use and which is encoded here. It belongs to a stream,
the id of an answer on the link, or to the link itself. Text frames are JSON objects; binary frames
are a kind byte, the stream id and a body. Everything is validated on arrival.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from dragon.errors import FrameError, InvalidRequestError
from dragon.link import bodies, control
from dragon.link.bodies import BinaryKind
from dragon.localizable import one_line
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Resync, Score, Target
from dragon.sampling.role import Role

LINK = 0
"""The stream id of messages about the link itself."""

EITHER = None
"""The sender of a frame that both sides send."""

_PLACE = 100  # the most characters of a field's name in an error
_HEAD = struct.Struct("<BI")  # kind, stream id

M = TypeVar("M")
Frame = str | bytes
Message = (
    control.Control | Join | Resync | Candidate | Score | Draft | Target | Correction | bodies.Bulk
)


@dataclass(frozen=True)
class FrameKind(Generic[M]):
    """A kind of frame, sent by one role or `EITHER`.

    `largest_token` is the largest token id in a message; 0 if it has none.
    """

    name: str
    message: type[M]
    sender: Role | None
    largest_token: Callable[[M], int] = lambda _: 0

    def check(self, message: M, sender: Role, vocab_size: int) -> None:
        """Raises `FrameError` if `sender` may not send this kind, or not these tokens."""
        if self.sender is sender.other:
            raise FrameError(f"a {sender} does not send {self.name}")
        if self.largest_token(message) >= vocab_size:
            raise FrameError(f"a token is outside the vocabulary of {vocab_size}")


@dataclass(frozen=True)
class TextKind(FrameKind[M]):
    """A kind of text frame: a JSON object of its name, the stream id if any, and the fields."""

    def encode(self, stream: int, message: M) -> str:
        if isinstance(message, BaseModel):
            fields = message.model_dump(mode="json")
        else:
            fields = dataclasses.asdict(message)  # type: ignore[call-overload]
        about = {} if stream == LINK else {"stream_id": stream}
        return orjson.dumps({"kind": self.name, **about, **fields}).decode()

    def decode(self, fields: dict[str, Any]) -> M:
        """The message of a frame's other fields; raises `FrameError` if they are invalid."""
        adapter: TypeAdapter[M] = _ADAPTERS[self.message]
        # A model has its own configuration, a dataclass has none.
        strict: dict[str, Any] = {"strict": True, "extra": "forbid"}
        options = {} if issubclass(self.message, BaseModel) else strict
        try:
            return adapter.validate_json(orjson.dumps(fields), **options)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = one_line(".".join([self.name, *map(str, first["loc"])]), _PLACE)
            raise FrameError(f"not a control message: {where}: {first['msg']}") from error
        except InvalidRequestError as error:  # from sampling parameters
            raise FrameError(f"not a control message: {self.name}: {error.message}") from error


@dataclass(frozen=True, kw_only=True)
class BodyKind(FrameKind[M]):
    """A kind of binary frame; its codec encodes a message into a body and back."""

    byte: BinaryKind
    pack: Callable[[M], bytes]
    unpack: Callable[[bytes], M]

    def encode(self, stream: int, message: M) -> bytes:
        return _HEAD.pack(self.byte, stream) + self.pack(message)


def _of_tokens(message: Join | Candidate | Correction) -> int:
    tokens = message.tail if isinstance(message, Join) else message.tokens
    return max(tokens, default=0)


_TEXT: tuple[TextKind[Any], ...] = (
    TextKind("hello", control.Hello, EITHER),
    TextKind("open", control.Open, Role.DEVICE, control.Open.largest_token),
    TextKind("ready", control.Ready, Role.CLOUD),
    TextKind("join", Join, Role.DEVICE, _of_tokens),
    TextKind("resync", Resync, Role.CLOUD),
    TextKind("candidate", Candidate, EITHER, _of_tokens),
    TextKind("score", Score, Role.CLOUD),
    TextKind("close", control.Close, Role.DEVICE),
    TextKind("fetch", control.Fetch, Role.DEVICE),
    TextKind("fetched", control.Fetched, Role.CLOUD),
    TextKind("score_text", control.ScoreText, Role.DEVICE, control.ScoreText.largest_token),
    TextKind("scoring", control.Scoring, Role.CLOUD),
    TextKind("score_taken", control.ScoreTaken, Role.DEVICE),
    TextKind("error", control.Fault, EITHER),
    TextKind("ping", control.Ping, EITHER),
    TextKind("pong", control.Pong, EITHER),
    TextKind("probe", control.Probe, EITHER),
    TextKind("draining", control.Draining, EITHER),
)
_BINARY: tuple[BodyKind[Any], ...] = (
    BodyKind(
        "draft", Draft, EITHER, bodies.largest_token_of_draft,
        byte=BinaryKind.DRAFT, pack=bodies.encode_draft, unpack=bodies.decode_draft,
    ),
    BodyKind(
        "target", Target, EITHER, lambda target: target.token,
        byte=BinaryKind.TARGET, pack=bodies.encode_target, unpack=bodies.decode_target,
    ),
    BodyKind(
        "correction", Correction, Role.DEVICE, _of_tokens,
        byte=BinaryKind.CORRECTION, pack=bodies.encode_correction, unpack=bodies.decode_correction,
    ),
    BodyKind(
        "bulk", bodies.Bulk, Role.CLOUD,
        byte=BinaryKind.BULK, pack=lambda bulk: bulk.data, unpack=bodies.decode_bulk,
    ),
)  # fmt: skip

_ADAPTERS = {kind.message: TypeAdapter(kind.message) for kind in _TEXT}
_BY_NAME = {kind.name: kind for kind in _TEXT}
_BY_BYTE = {int(kind.byte): kind for kind in _BINARY}
_KINDS: tuple[TextKind[Any] | BodyKind[Any], ...] = (*_TEXT, *_BINARY)
_BY_MESSAGE: dict[type, TextKind[Any] | BodyKind[Any]] = {kind.message: kind for kind in _KINDS}


def name_of(message: Message) -> str:
    return _BY_MESSAGE[type(message)].name


def encode(message: Message, stream: int = LINK) -> Frame:
    """The frame of a message of a stream, or of the link itself."""
    return _BY_MESSAGE[type(message)].encode(stream, message)


def decode(frame: Frame, sender: Role, vocab_size: int) -> tuple[int, Message]:
    """Decode a frame into its stream id and message; raises `FrameError` if it is invalid."""
    kind, stream, message = _decode_text(frame) if isinstance(frame, str) else _decode_binary(frame)
    kind.check(message, sender, vocab_size)
    return stream, message


def _decode_text(frame: str) -> tuple[FrameKind[Any], int, Message]:
    if len(frame) > control.MAX_CONTROL_BYTES:
        raise FrameError(f"a control frame has at most {control.MAX_CONTROL_BYTES} bytes")
    try:
        fields = orjson.loads(frame)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"not a control message: {error}") from error
    if not isinstance(fields, dict):
        raise FrameError("not a control message: no JSON object")
    name, stream = fields.pop("kind", None), fields.pop("stream_id", LINK)
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FrameError(f"not a control message: there is no kind {str(name)[:40]!r}")
    if type(stream) is not int or not 0 <= stream < 1 << 32:
        raise FrameError(f"not a control message: {kind.name}.stream_id is no stream id")
    return kind, stream, kind.decode(fields)


def _decode_binary(frame: bytes) -> tuple[FrameKind[Any], int, Message]:
    if len(frame) <= _HEAD.size:
        raise FrameError(f"a binary frame of {len(frame)} bytes is cut short")
    byte, stream = _HEAD.unpack_from(frame)
    kind = _BY_BYTE.get(byte)
    if kind is None:
        raise FrameError(f"unknown kind of frame: {byte}")
    try:
        return kind, stream, kind.unpack(frame[_HEAD.size :])
    except struct.error as error:
        raise FrameError(f"a {kind.name} frame is cut short: {error}") from error
