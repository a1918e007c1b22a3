"""The passes of an answer, told as one.

A pass is one text that both sides write together (`run`). Where a pass has ended and the
question wants more than what it says (`dragon.retrieval.hops`), the side that has not spoken
searches with what is written, and another pass goes on. Its positions, characters and sources are
told as those of the whole answer. The token that ended the pass before stands for the space
between the two texts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, TypeVar

from app.generation.accumulator import Choice
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from app.generation.timeline import Entry
from dragon.inference.tokenizer import Tokenizer, may_stop
from dragon.retrieval.courtesy import plain
from dragon.retrieval.hops import NextHop
from dragon.retrieval.lexical import coverage

_SPACE = " "


class Passage(Protocol):
    """A text that was found, and how well it fits what was asked for."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


P = TypeVar("P", bound=Passage)


@dataclass(frozen=True)
class NextPass:
    """What would be written next, if the side that has not spoken finds what goes on with the text.

    With `private` that is the device, which then writes alone.
    """

    request: GenerationRequest
    follow_up: NextHop
    private: bool

    def among(self, found: Sequence[P]) -> list[P]:
        """Those of the passages found that go on with the text."""
        return [p for p in found if self.follow_up.answered_by(p.text, p.score)]


class Passes:
    """Takes the events of one pass after the other."""

    def __init__(self, request: GenerationRequest, tokenizer: Tokenizer, limit: int) -> None:
        self._request = request
        self._tokenizer = tokenizer
        self._limit = limit  # tokens of all passes together
        self._started = [time.monotonic()]
        self._now = Choice(0, request)
        self._ends: list[Finished] = []
        self._tokens = 0  # of the passes before
        self._length = 0  # characters before the text of this one
        self._sources: tuple[Source, ...] = ()  # of the passes before
        self._unread = 0
        self._joint: bool | None = None
        self._held: list[TokenDetail] = []  # tokens that end a pass

    def take(self, event: Event) -> Iterator[Event]:
        """What is told of an event of the present pass; its end is kept for `finish`."""
        goes_on = bool(self._ends) and not self._now.text
        self._now.take(event)
        match event:
            case Finished():
                self._ends.append(event)
            case SourcesFound(sources=sources):
                here = [replace(source, hop=len(self._ends)) for source in sources]
                self._unread = max(self._unread, event.unread_documents)
                every = (*self._sources, *here)
                yield replace(event, sources=every, unread_documents=self._unread)
            case TextDelta(text=text, tokens=tokens) if text and goes_on:
                self._length += len(_SPACE)
                yield TextDelta(_SPACE + text, tokens)
                yield from self._seam()
            case Detailed(details=details):
                yield from self._told([self._placed(detail) for detail in details])
            case PeerChanged(joint=joint, position=position):
                if joint is not self._joint:
                    self._joint = joint
                    yield replace(event, position=self._tokens + position)
            case _:
                yield event

    def next(self) -> NextPass | None:
        """What to go on with after the pass that has ended, if anything is to be asked for.

        Nothing where a stop string may reach from this text into the next.
        """
        request, written, last = self._request, self._now, self._ends[-1]
        count = self._tokens + last.completion_tokens
        ended = last.reason == "stop" and written.tokens[-1] in self._tokenizer.end_ids
        if (
            not ended
            or not request.mode.joint
            or len(self._ends) > request.hops
            or count >= self._limit
            or not written.sources
            or may_stop(written.text + _SPACE, request.stop)
        ):
            return None
        source = max(written.sources, key=lambda source: coverage(written.text, source.text))
        follow_up = NextHop(plain(request.query), written.text, source.text)
        if not follow_up.wanted:
            return None
        private = source.side == "public"
        left = bool(follow_up.left)
        again = self._tokenizer.asked_again(follow_up.query if left else request.query)
        return NextPass(
            replace(
                request,
                conversation=(*written.request.conversation, *written.tokens[:-1], *again),
                query=follow_up.query,
                judged=left,  # what is missing is no question: `among` decides
                sampling=request.sampling.of_pass(len(self._ends)),
                max_tokens=self._limit - count,
                details=None if request.details is None else replace(request.details, prompt=False),
                private=request.private or private,
            ),
            follow_up,
            private,
        )

    def begin(self, request: GenerationRequest) -> None:
        """What comes next is of another pass."""
        self._sources += self._now.sources
        self._length += len(self._now.text)
        self._tokens += len(self._now.tokens)
        self._now = Choice(0, request)
        self._started.append(time.monotonic())

    def finish(self) -> Iterator[Event]:
        """The end of the whole answer."""
        if self._held:
            yield Detailed(tuple(self._held))
        yield whole(self._ends, self._started)

    def _told(self, details: Sequence[TokenDetail]) -> Iterator[Event]:
        """What ends a pass is told once it is known what it stands for."""
        told = [detail for detail in details if detail.token not in self._tokenizer.end_ids]
        self._held += [detail for detail in details if detail.token in self._tokenizer.end_ids]
        if told:
            yield Detailed(tuple(told))

    def _seam(self) -> Iterator[Event]:
        space = self._tokenizer.encode(_SPACE)[-1]
        seams = [
            replace(detail, token=space, text=_SPACE, end=detail.end + len(_SPACE))
            for detail in self._held
        ]
        self._held = []
        if seams:
            yield Detailed(tuple(seams))

    def _placed(self, detail: TokenDetail) -> TokenDetail:
        return replace(
            detail,
            position=self._tokens + detail.position,
            start=self._length + detail.start,
            end=self._length + detail.end,
            documents=(*[0.0] * len(self._sources), *detail.documents),
        )


def whole(ends: Sequence[Finished], started: Sequence[float]) -> Finished:
    """The end of an answer whose passes ended so; `started` in seconds of one clock."""
    starts = [0, *accumulate(end.completion_tokens for end in ends)]
    participation: list[tuple[int, int]] = []
    trace: list[Entry] = []
    for end, at, since in zip(ends, starts, started, strict=False):
        later = 1000 * (since - started[0])
        trace += [
            (kind, at + position, round(later + begun, 1), round(later + done, 1))
            for kind, position, begun, done in end.trace
        ]
        for first, last in end.participation:
            goes_on = bool(participation) and participation[-1][1] == at + first
            begins = participation.pop()[0] if goes_on else at + first
            participation.append((begins, at + last))
    return Finished(
        reason=ends[-1].reason,
        prompt_tokens=ends[0].prompt_tokens,
        completion_tokens=starts[-1],
        participation=tuple(participation),
        stats=_statistics(ends),
        verdicts="".join(end.verdicts for end in ends),
        trace=tuple(trace),
        hops=tuple(starts[1:-1]),
    )


# Of the first pass; summed; in the mean over tokens, or over those written jointly. Others: latest.
_FIRST = ("ttft_ms", "prefill_ms")
_SUMMED = ("sent_frames", "sent_bytes", "document_tokens")
_PER_TOKEN = ("ms_per_token", "wire_mass", "wire_tv")
_PER_VERDICT = ("accept_device", "accept_cloud", "tv")


def _statistics(ends: Sequence[Finished]) -> dict[str, float]:
    stats: dict[str, float] = {}
    for name in dict.fromkeys(name for end in ends for name in end.stats):
        known = [end for end in ends if name in end.stats]
        values = [end.stats[name] for end in known]
        if name in _SUMMED:
            stats[name] = sum(values)
        elif name in _PER_TOKEN:
            stats[name] = _mean(values, [end.completion_tokens for end in known])
        elif name in _PER_VERDICT:
            stats[name] = _mean(values, [len(end.verdicts) for end in known])
        else:
            stats[name] = values[0 if name in _FIRST else -1]
    return stats | {"passes": len(ends)}


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    if len(values) == 1:
        return values[0]
    return round(sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights), 4)
