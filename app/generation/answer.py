"""The parts of an answer being written on the device: text, sources, details, statistics.

It decides nothing by a clock and sends nothing: a run feeds it, and emits the events it returns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from app.generation.attribution import AnswerDetails
from app.generation.citations import Citations
from app.generation.events import (
    Cited,
    Finished,
    GenerationRequest,
    Source,
    SourcesFound,
    TextDelta,
)
from app.generation.stats import Record, cut_statistics, verdicts
from app.generation.timeline import Trace
from dragon.inference.decoder import CutStatistics
from dragon.inference.estimates import Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.protocol.committed_text import Settled
from dragon.protocol.session import Session


class Answer:
    """One answer: its `tokens`, including the one that ended it, and `length` characters of text.

    `details` describes its tokens, if that was asked for.
    """

    def __init__(
        self,
        request: GenerationRequest,
        tokenizer: Tokenizer,
        cloud_citations: int | None = None,
    ) -> None:
        """The cloud's passages are cited by numbers from `cloud_citations` on, if at all."""
        self._request = request
        self._cloud_citations = cloud_citations
        self._citations = Citations()
        self._tokenizer = tokenizer
        self._stream = request.stream(tokenizer)
        self._found = SourcesFound(())
        self.record = Record()
        self.trace = Trace()
        self.details: AnswerDetails | None = None
        if request.details is not None:
            self.details = AnswerDetails(request.details.top, tokenizer)
        self.tokens: list[int] = []
        self.length = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended it."""
        return self._stream.stopped

    @property
    def private(self) -> list[Source]:
        """The user's documents among its sources."""
        return [source for source in self._found.sources if source.side == "private"]

    @property
    def public(self) -> list[Source]:
        """The cloud's documents among its sources, as far as it has sent them."""
        return [source for source in self._found.sources if source.side == "public"]

    def take_own(self, found: SourcesFound) -> SourcesFound:
        """Add what the device has retrieved; returns all sources."""
        if self.details is not None:
            self.details.own_sources = len(found.sources)
        return self._take_sources(replace(found, sources=(*found.sources, *self._found.sources)))

    def take_public(self, documents: Sequence[control.PublicDocument]) -> SourcesFound:
        """Replace the cloud's documents; returns all sources."""
        own = self._found.sources[: len(self._found.sources) - len(self.public)]
        public = [public_source(document) for document in documents]
        if (first := self._cloud_citations) is not None:
            public = [replace(each, citation=n) for n, each in enumerate(public, first)]
        return self._take_sources(replace(self._found, sources=(*own, *public)))

    def take(self, tokens: Sequence[int], settled: Sequence[Settled], *, last: bool) -> TextDelta:
        """Add committed tokens, the last ones if `last`. Returns the text that is final.

        Tokens after a stop string are not added.
        """
        self.record.first = self.record.first or time.monotonic()
        text = ""
        before = len(self.tokens)
        # One by one, so that tokens after a stop string are never counted.
        for token in tokens:
            if self._stream.stopped:
                break
            self.tokens.append(token)
            if token in self._request.stop_tokens:
                text += self._stream.stop()
            elif token not in self._tokenizer.end_ids:
                text += self._stream.push([token])
        if last or self._stream.stopped:
            text += self._stream.finish()
        taken = tuple(self.tokens[before:])
        self.trace.text(before, len(taken))
        self.length += len(text)
        if self.details is not None:
            self.details.take(settled[: len(taken)], self.length)
        return TextDelta(text, taken)

    def cited(self, text: str) -> Cited | None:
        """The citations that newly final text completes, if any."""
        found = self._citations.read(text, self._found.sources)
        return Cited(tuple(found)) if found else None

    def finish(
        self, session: Session, pace: Pace, cuts: CutStatistics | None, *, linked: bool
    ) -> Finished:
        """How it ended; `linked` adds the peer's statistics."""
        if self.details is not None:
            self.details.end(self.length, stopped=self.stopped)
        stats = self.record.statistics(session, pace, len(self.tokens), linked=linked)
        texts = (source.text for source in self._found.sources)
        stats["document_tokens"] = sum(len(self._tokenizer.encode(text)) for text in texts)
        if cuts is not None:
            stats |= cut_statistics(cuts)
        intervals, count = session.intervals(), len(self.tokens)
        return Finished(
            reason="stop"
            if self.stopped or self.tokens[-1] in self._tokenizer.end_ids
            else "length",
            prompt_tokens=self._request.prompt_tokens(self._tokenizer),
            completion_tokens=count,
            participation=tuple((a, min(b, count)) for a, b in intervals if a < count),
            stats={name: round(value, 4) for name, value in stats.items()},
            verdicts=verdicts(session.agreement.verdicts[:count]),
            trace=tuple(self.trace.entries),
            stop=self._stream.met,
        )

    def _take_sources(self, found: SourcesFound) -> SourcesFound:
        # What comes nearest is of no use beside what answers.
        found = replace(found, closest=() if found.sources else found.closest)
        self._found = found
        if self.details is not None:
            self.details.cloud_weights = tuple(source.weight for source in self.public)
        return found


def public_source(document: control.PublicDocument) -> Source:
    """A document of the cloud as a source."""
    return Source(
        "public",
        document.id,
        document.title,
        document.text,
        score=document.score,
        weight=document.weight,
    )
