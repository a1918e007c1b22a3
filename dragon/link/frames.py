"""A session's messages as frames of the link: drafts and targets binary, the rest JSON."""

from __future__ import annotations

from dragon.link import codec
from dragon.link import control as messages
from dragon.protocol.messages import Candidate, Join, Resync, Score, SessionMessage


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
        case Candidate():
            return messages.encode(
                messages.CandidateSent(
                    generation=generation,
                    incarnation=message.incarnation,
                    tokens=message.tokens,
                    log_likelihood=message.log_likelihood,
                    log_h=message.log_h,
                )
            )
        case Score():
            return messages.encode(
                messages.CandidateScored(
                    generation=generation,
                    incarnation=message.incarnation,
                    log_likelihood=message.log_likelihood,
                )
            )
        case _:
            return codec.encode(generation, message)


def session_message(control: messages.SessionControl) -> SessionMessage:
    """What a control message means to the session it is for."""
    match control:
        case messages.Joined():
            return Join(control.incarnation, control.base, control.tail)
        case messages.ResyncAsked():
            return Resync(control.incarnation)
        case messages.CandidateSent():
            return Candidate(
                control.incarnation, control.tokens, control.log_likelihood, control.log_h
            )
        case messages.CandidateScored():
            return Score(control.incarnation, control.log_likelihood)
