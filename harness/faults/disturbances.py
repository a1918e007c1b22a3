"""Frames that a peer should not send: each kind of disturbance, as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dragon.link import batching, bodies, control, registry
from dragon.protocol.messages import Candidate, Draft, Resync, Score, Target
from dragon.protocol.session import Session
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role


class Behaviour(StrEnum):
    """What a peer does when asked. It sends `ready` first, unless stated otherwise."""

    # Takes part, in its own way.
    FLAT = "flat"  # a flat distribution, with the highest relevance possible
    STEER = "steer"  # puts chosen words into the answer, else a flat distribution
    REPLAY = "replay"  # sends every draft twice
    SLOW = "slow"  # claims to take an hour per token, and sends one
    DRIP = "drip"  # sends a draft a second
    SILENT = "silent"  # sends nothing more
    # Is absent.
    NEVER = "never"  # is never ready
    LATE = "late"  # is ready after some seconds
    FAULT = "fault"  # fails every answer
    HANG_UP = "hang up"  # ends the connection instead
    NO_PONG = "no pong"  # sends nothing more, not even pongs
    # Periodically sends what does not belong there.
    OLD = "old"  # drafts of another incarnation
    GAP = "gap"  # drafts with others missing before them
    FUTURE = "future"  # drafts of an epoch to come
    CHECKSUM = "checksum"  # drafts after another text
    READY = "ready"  # is ready again and again
    RESYNC = "resync"  # asks for a resync again and again
    TARGET = "target"  # sends targets that are not its to choose
    CANDIDATE = "candidate"  # offers whole answers
    SCORE = "score"  # sends scores that were not requested
    BULK = "bulk"  # sends data that was not requested
    FOREIGN = "foreign"  # sends a token outside every vocabulary
    GARBAGE = "garbage"  # sends bytes that are no frame
    STRANGER = "stranger"  # sends drafts for answers that do not exist
    # Sends too much.
    HUGE = "huge"  # passages as long as a frame allows
    FLOOD = "flood"  # bundles of tiny drafts, as fast as it can
    PINGS = "pings"  # pings, as fast as it can
    PROBES = "probes"  # padding, as fast as it can


FLOODS = frozenset({Behaviour.FLOOD, Behaviour.PINGS, Behaviour.PROBES})


@dataclass(frozen=True)
class Asked:
    """An answer that a peer disturbs."""

    stream: int
    session: Session
    ready: control.Ready

    def draft(self, **changes: Any) -> Draft:
        """A draft that would be valid, except for the changes."""
        session = self.session
        length = len(session.committed)
        side = Side(WireDistribution.of([5], [SCALE]), 0)
        own = Draft(session.incarnation, 0, length, length, session.checksum(length), 5, 1000, side)
        return replace(own, **changes)

    def frame(self, message: registry.Message) -> registry.Frame:
        """A message of this answer."""
        return registry.encode(message, self.stream)


def huge(ready: control.Ready) -> control.Ready:
    """The largest `ready` that fits in a frame."""
    (document,) = ready.documents
    text = "a" * 60_000
    return ready.model_copy(
        update={"documents": (document.model_copy(update={"text": text}),) * 16}
    )


def full_bundle(frame: registry.Frame) -> registry.Frame:
    """A message with as many copies of a small binary frame as fit."""
    assert isinstance(frame, bytes)
    (bundle,) = batching.messages([frame] * (batching.MAX_BYTES // (len(frame) + 4) - 1))
    return bundle


DISTURBANCES: Mapping[Behaviour, Callable[[Asked], registry.Frame]] = {
    Behaviour.OLD: lambda asked: asked.frame(asked.draft(incarnation=99)),
    Behaviour.GAP: lambda asked: asked.frame(
        asked.draft(position=len(asked.session.committed) + 9)
    ),
    Behaviour.FUTURE: lambda asked: asked.frame(asked.draft(epoch=7)),
    Behaviour.CHECKSUM: lambda asked: asked.frame(asked.draft(checksum=1)),
    Behaviour.READY: lambda asked: asked.frame(asked.ready),
    Behaviour.RESYNC: lambda asked: asked.frame(Resync(asked.session.incarnation)),
    Behaviour.TARGET: lambda asked: asked.frame(
        Target(asked.session.incarnation, 0, 5, True, True, Role.CLOUD)
    ),
    Behaviour.CANDIDATE: lambda asked: asked.frame(
        Candidate(asked.session.incarnation, (5, 6, 7), -1.0, 0)
    ),
    Behaviour.SCORE: lambda asked: asked.frame(Score(asked.session.incarnation, -1.0)),
    Behaviour.BULK: lambda asked: asked.frame(bodies.Bulk(bytes(1000))),
    Behaviour.FOREIGN: lambda asked: asked.frame(asked.draft(token=(1 << 31) - 1)),
    Behaviour.GARBAGE: lambda _: os.urandom(1000),
    Behaviour.STRANGER: lambda asked: registry.encode(asked.draft(), asked.stream + 1000),
    Behaviour.FLOOD: lambda asked: full_bundle(asked.frame(asked.draft(incarnation=99))),
    Behaviour.PINGS: lambda _: registry.encode(control.Ping(number=1)),
    Behaviour.PROBES: lambda _: registry.encode(control.Probe(payload="." * control.MAX_PROBE)),
}
"""Functions that make the frames of the behaviours that send them repeatedly."""
