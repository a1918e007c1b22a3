"""The state of an answer, kept up to date for the code that renders, stores or measures it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from app.generation.events import (
    Citation,
    Cited,
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    NotAsked,
    PeerChanged,
    PromptDetailed,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from dragon.localizable import Localizable


@dataclass(frozen=True)
class Seam:
    """A place where the cloud joined or left an answer; `offset` is in characters of the text."""

    offset: int
    joint: bool
    reason: str


class AnswerState:
    """The accumulated events of one answer."""

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.found: SourcesFound | None = None
        self.not_asked = False
        self.unsearched = 0  # parts of the cloud's corpus
        # Why the cloud does not take part, for people: it has no room, or it is away.
        self.refused: str | None = None
        self.away: Localizable | None = None
        self.tokens: list[int] = []
        self.prompt: tuple[TokenDetail, ...] = ()
        self.details: list[TokenDetail] = []
        self.citations: list[Citation] = []
        self.seams: list[Seam] = []
        self.length = 0  # characters of the text
        self._texts: list[str] = []
        self._finished: Finished | None = None
        self._jointly: list[tuple[int, int]] = []
        self._joint_since: int | None = None

    def take(self, event: Event) -> None:
        match event:
            case SourcesFound():
                self.found = event
            case TextDelta(text=text, tokens=tokens):
                self._texts.append(text)
                self.length += len(text)
                self.tokens += tokens
            case Cited(citations=citations):
                self.citations += citations
            case Detailed(details=details):
                self.details += details
            case NotAsked():
                self.not_asked = True
            case PromptDetailed(details=details):
                self.prompt = details
            case Finished():
                self._finished = event
            case PeerChanged(joint=joint, position=position, reason=reason):
                self.seams.append(Seam(self.length, joint, reason))
                self.refused = reason if event.refused else None
                self.away = None if joint or not isinstance(reason, Localizable) else reason
                self.unsearched = max(self.unsearched, event.unsearched)
                if joint:
                    self._joint_since = position
                    self.not_asked = False
                elif self._joint_since is not None:
                    self._jointly.append((self._joint_since, position))
                    self._joint_since = None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The documents known so far that it is conditioned on."""
        return self.found.sources if self.found else ()

    @property
    def declines(self) -> bool:
        """Whether no passage answers, so that its text is `NO_ANSWER`."""
        found, quotable = self.found, self.request.sampling.quotable
        return found is not None and found.declines and not found.sources and quotable

    @property
    def participation(self) -> list[tuple[int, int]]:
        """The half-open token ranges written jointly so far."""
        if self._finished is not None:
            return list(self._finished.participation)
        last = [] if self._joint_since is None else [(self._joint_since, len(self.tokens))]
        return [(start, end) for start, end in (*self._jointly, *last) if start < end]

    @property
    def finished(self) -> bool:
        return self._finished is not None

    @property
    def end(self) -> Finished:
        """The last event. Raises `RuntimeError` if the answer is not finished."""
        if self._finished is None:
            raise RuntimeError("the generation ended without its last event")
        return self._finished

    def likelihood(self) -> float:
        """The mean log-probability of its tokens in the full mixture."""
        values = [d.logprob for d in self.details if d.logprob is not None]
        return sum(values) / len(values) if values else -math.inf


Write = Callable[[AnswerState], AsyncGenerator[Event, None]]


class AnswerObserver(Protocol):
    """Sees every answer and each of its events, after the answer's state was updated."""

    def begun(self, answer: AnswerState) -> None:
        """The answer is about to be generated."""

    def observed(self, answer: AnswerState, event: Event) -> None:
        """An event has arrived."""

    def over(self, answer: AnswerState, *, cancelled: bool) -> None:
        """No more events: the answer finished, failed or was cancelled."""


@contextmanager
def observing(
    answer: AnswerState, *observers: AnswerObserver
) -> Iterator[Callable[[Event], Event]]:
    """Observe an answer from its beginning to its end.

    The function that this yields adds an event to the answer's state, then shows it to observers.
    """
    for observer in observers:
        observer.begun(answer)

    def take(event: Event) -> Event:
        answer.take(event)
        for observer in observers:
            observer.observed(answer, event)
        return event

    cancelled = False
    try:
        yield take
    except (asyncio.CancelledError, GeneratorExit):
        cancelled = True
        raise
    finally:
        for observer in observers:
            observer.over(answer, cancelled=cancelled)
