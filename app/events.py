"""What a generation is asked and what it tells, as the routes see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dragon.sampling import Mode, Sampling
from dragon.scheduling import Schedule


@dataclass(frozen=True)
class GenerationRequest:
    """One answer to write.

    `conversation` holds the token ids both sides see after a document; `raw` when they are a plain
    prompt without the chat template. `query` is the text that documents are looked up for.
    `schedule` says who aggregates in speculative aggregation. Without `catch_up` neither side runs
    the other's drafts. `documents` and `collections` say which of the person's documents may be
    used; None is no limit.
    """

    conversation: tuple[int, ...]
    query: str
    sampling: Sampling
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    mode: Mode = Mode.COUPLED
    schedule: Schedule = Schedule.GREEDY
    catch_up: bool = True
    top_k: int | None = None
    private: bool = False
    raw: bool = False
    documents: tuple[str, ...] | None = None
    collections: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Source:
    """A document an answer was conditioned on. `weight` is its share within its side, 0 to 1."""

    side: Literal["private", "public"]
    id: str
    title: str
    text: str
    score: float
    weight: float
    page: int | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class SourcesFound:
    """Every source known so far; a later event of the kind replaces the earlier.

    `nothing_relevant`: the person's documents were searched and none of them is about this.
    """

    sources: tuple[Source, ...]
    nothing_relevant: bool = False


@dataclass(frozen=True)
class TextDelta:
    """Text that is final, and the tokens it came from (none while a character is incomplete)."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class PeerChanged:
    """From token `position` on the cloud takes part, or no longer does."""

    joint: bool
    position: int
    reason: str


@dataclass(frozen=True)
class Finished:
    """The last event. `participation` lists the half-open token ranges written jointly.

    `verdicts` has a character a jointly written token: whose draft it is, `=` both sides', `d` the
    device's, `c` the cloud's, `.` neither's.
    """

    reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    participation: tuple[tuple[int, int], ...] = ()
    stats: Mapping[str, float] = field(default_factory=dict)
    verdicts: str = ""


Event = SourcesFound | TextDelta | PeerChanged | Finished


@dataclass(frozen=True)
class PeerStatus:
    """The link as people see it. `rtt_ms` is the smoothed round trip, None before the first."""

    state: Literal["connected", "connecting", "refused"]
    rtt_ms: float | None = None
    detail: str = ""
