"""A session's messages as frames of the link: drafts and targets binary, the rest JSON."""

from __future__ import annotations

from dragon.link import codec, messages
from dragon.protocol import Join, Resync, SessionMessage


def pack(generation: int, message: SessionMessage) -> str | bytes:
    """The frame of a session's message."""
    match message:
        case Join():
            return messages.encode(
                messages.Joined(
                    generation=generation,
                    incarnation=message.incarnation,
                    base=message.base,
                    tail=message.tail,
                )
            )
        case Resync():
            return messages.encode(
                messages.ResyncAsked(generation=generation, incarnation=message.incarnation)
            )
        case _:
            return codec.encode(generation, message)


def session_message(control: messages.Joined | messages.ResyncAsked) -> SessionMessage:
    """What a control message means to the session it is for."""
    if isinstance(control, messages.Joined):
        return Join(control.incarnation, control.base, control.tail)
    return Resync(control.incarnation)
