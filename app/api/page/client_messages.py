"""The frames that a page may send over `/ws/chat`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from app.api.openai.field_types import Str, Strict
from app.api.openai.turns import ChatMessage
from app.api.page.parameters import Params
from app.documents.uploads import MAX_COLLECTION_CHARACTERS

Id = Annotated[str, Field(min_length=1, max_length=64)]


class Ask(Strict):
    """Write an answer without storing it; every frame about it carries `id`."""

    type: Literal["ask"]
    id: Id
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)]
    params: Params = Params()


class Say(Strict):
    """Ask in a conversation, a new one if none is named, after an earlier answer or at the top.

    A new conversation may belong to a project. The reply is a frame `began` with this `id`; those
    about the answer carry the answer's own id.
    """

    type: Literal["say"]
    id: Id
    conversation: Id | None = None
    parent: Id | None = None
    project: Annotated[str, Field(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    text: Annotated[Str, StringConstraints(min_length=1, pattern=r"\S")]
    params: Params = Params()


class Again(Strict):
    """Another answer to the question `message`; the reply is that to `say`.

    With `other` it is written on the device, from passages that no answer to it has quoted yet.
    """

    type: Literal["again"]
    id: Id
    message: Id
    other: bool = False
    params: Params = Params()


class Continue(Strict):
    """Continue an answer that has ended; the reply is that to `say`."""

    type: Literal["continue"]
    id: Id
    message: Id
    params: Params = Params()


class Watch(Strict):
    """Read an answer from its beginning; one that has ended comes in a frame `message`."""

    type: Literal["watch"]
    id: Id


class Stop(Strict):
    """End an answer; what is written stays."""

    type: Literal["stop"]
    id: Id


Incoming = Ask | Say | Again | Continue | Watch | Stop
INCOMING: TypeAdapter[Incoming] = TypeAdapter(Annotated[Incoming, Field(discriminator="type")])
