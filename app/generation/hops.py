"""The hops of an answer, reported as one answer.

A hop is one text that both sides write together (`run`). If the question asks for more than a
finished hop says (`dragon.retrieval.hops`), another search and another hop follow. Its positions,
characters and sources are reported as those of the whole answer. The token that ended the previous
hop stands for the space between the two texts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, TypeVar

from app.generation.accumulator import AnswerState
from app.generation.cloud_view import Known
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from app.generation.timeline import Entry
from app.settings import Cloud
from dragon.inference.tokenizer import Message, Tokenizer, may_stop
from dragon.retrieval.courtesy import plain
from dragon.retrieval.hops import OpenQuestion
from dragon.retrieval.lexical import coverage
from dragon.sampling.params import Mode

_SPACE = " "


class Passage(Protocol):
    """A text that was found, and its score for the query."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


P = TypeVar("P", bound=Passage)


@dataclass(frozen=True)
class HopRequest:
    """What would be written next, if the side that searches finds a continuation.

    If `private`, that side is the device, which then writes alone. Unless `agreed`, it is only an
    offer: the cloud would be sent words that it does not know.
    """

    request: GenerationRequest
    follow_up: OpenQuestion
    private: bool
    agreed: bool
    said: str
    """The text so far."""

    def among(self, found: Sequence[P]) -> list[P]:
        """The found passages that continue the text."""
        return [
            passage
            for passage in found
            if passage.text not in self.said
            and self.follow_up.answered_by(passage.text, passage.score)
        ]


@dataclass(frozen=True)
class _Start:
    """Where the current hop begins in the whole answer, counted in what precedes it."""

    request: GenerationRequest
    tokens: int = 0
    characters: int = 0
    sources: int = 0


class Hops:
    """Takes the events of one hop after another; its state is that of the whole answer."""

    def __init__(self, request: GenerationRequest, tokenizer: Tokenizer, limit: int) -> None:
        self._request = request
        self._tokenizer = tokenizer
        self._limit = limit  # tokens of all hops together
        self._started = [time.monotonic()]
        self._answer = AnswerState(request)
        self._start = _Start(request)
        self._ends: list[Finished] = []
        self._joint: bool | None = None
        self._told = 0  # tokens of the current hop that the cloud knows
        self._held: list[TokenDetail] = []  # tokens that end a hop
        self._known = Known()

    def take(self, event: Event) -> Iterator[Event]:
        """The whole answer's events for one of the current hop; its end is kept for `finish`."""
        for placed in self._placed(event):
            self._answer.take(placed)
            yield placed

    def next(self) -> tuple[HopRequest, ...]:
        """The hops that may follow: the first of them that finds a continuation does.

        What a sentence brings up is looked up by the side that has not contributed. A question left
        is looked up by both sides, by the device first if the cloud is asked only when needed.
        Empty if nothing more is needed, or if a stop string may reach from this text into the next.
        """
        request, answer, start, last = self._request, self._answer, self._start, self._ends[-1]
        text, tokens = answer.text[start.characters :], answer.tokens[start.tokens :]
        count = start.tokens + last.completion_tokens
        sources = answer.sources[start.sources :]
        ended = last.reason == "stop" and tokens[-1] in self._tokenizer.end_ids
        if (
            not ended
            or not (request.mode.joint or request.mode is Mode.LOCAL)
            or len(self._ends) > request.hops
            or count >= self._limit
            or not sources
            or may_stop(text + _SPACE, request.stop)
        ):
            return ()
        source = max(sources, key=lambda source: coverage(text, source.text))
        follow_up = OpenQuestion(plain(start.request.query), text, source.text)
        own = replace(follow_up, own=True)
        left = bool(follow_up.left)
        # A further hop's query is a question only if one was left.
        wanted = follow_up.wanted and (left or len(self._ends) == 1)
        hops = []
        if own.left and own.wanted:
            hops.append(self._hop(own, count, private=True, agreed=True))
        elif wanted and source.side == "public":
            hops.append(self._hop(follow_up, count, private=True, agreed=True))
        if wanted and request.joint and (left or source.side == "private"):
            known = self._told >= len(tokens) - 1
            known &= last.participation == ((0, count - start.tokens),)
            agreed = left or known or request.hops_agreed
            if agreed or follow_up.offered:
                hops.append(self._hop(follow_up, count, private=False, agreed=agreed, known=known))
        if request.cloud is Cloud.ALWAYS and source.side == "private":
            hops.reverse()
        return tuple(hops)

    def _hop(
        self,
        follow_up: OpenQuestion,
        count: int,
        *,
        private: bool,
        agreed: bool,
        known: bool = False,
    ) -> HopRequest:
        """A hop after `count` tokens of the answer; `known`: the cloud knows the current hop."""
        request, start = self._request, self._start
        left = bool(follow_up.left)
        asked = self._tokenizer.asked_again(follow_up.query if left else request.query)
        more = (*self._answer.tokens[start.tokens : -1], *asked)
        if known:
            shown = (*start.request.shown, *more)
        else:
            shown = tuple(self._tokenizer.conversation([Message("user", follow_up.query)]))
        following = replace(
            request,
            conversation=(*start.request.conversation, *more),
            cloud_conversation=shown,
            query=follow_up.query,
            query_alone=None,
            cloud_query=None,
            parts=request.parts if known else (),
            judged=left,  # the missing words are no question: `among` decides
            sampling=request.sampling.of_pass(len(self._ends)),
            max_tokens=self._limit - count,
            details=None if request.details is None else replace(request.details, prompt=False),
            cloud=Cloud.NEVER if private else Cloud.ALWAYS,
        )
        return HopRequest(following, follow_up, private, agreed, self._answer.text)

    def begin(self, hop: HopRequest) -> Iterator[Event]:
        """Begin another hop, to which the following events belong."""
        answer = self._answer
        self._start = _Start(hop.request, len(answer.tokens), answer.length, len(answer.sources))
        self._started.append(time.monotonic())
        if hop.private and self._joint:
            yield from self.take(PeerChanged(False, 0, "the rest is of your own documents"))

    def known(self, tokens: int, *, asked: bool) -> None:
        """The cloud knows the first `tokens` tokens of this hop and, if `asked`, the question."""
        start, answer, ranges = self._start, self._answer, self._known.ranges
        self._told = tokens
        if tokens:
            ends = self._tokenizer.end_ids
            text = [t for t in answer.tokens[start.tokens :][:tokens] if t not in ends]
            end = start.characters + len(self._tokenizer.decode(text))
            ranges = (*ranges, (start.characters, min(answer.length, end)))
        self._known = Known(self._known.asked or asked, ranges)

    def as_known(self) -> tuple[str, Known]:
        """The text so far, and what the cloud knows of it."""
        return self._answer.text, self._known

    def finish(self) -> Iterator[Event]:
        """The end of the whole answer."""
        if self._held:
            yield Detailed(tuple(self._held))
        yield whole(self._ends, self._started)

    def _placed(self, event: Event) -> Iterator[Event]:
        """An event of the current hop as one of the whole answer."""
        answer, start = self._answer, self._start
        match event:
            case Finished():
                self._ends.append(event)
            case SourcesFound(sources=sources):
                here = [replace(source, hop=len(self._ends)) for source in sources]
                every = (*answer.sources[: start.sources], *here)
                before = answer.found.unread_documents if answer.found else 0
                unread = max(before, event.unread_documents)
                closest = () if every else event.closest
                yield replace(event, sources=every, unread_documents=unread, closest=closest)
            case TextDelta(text=text, tokens=tokens) if self._is_first(text):
                self._start = replace(start, characters=start.characters + len(_SPACE))
                yield TextDelta(_SPACE + text, tokens)
                yield from self._space()
            case Detailed(details=details):
                yield from self._without_end([self._detail(detail) for detail in details])
            case PeerChanged(joint=joint, position=position):
                if joint is not self._joint:
                    self._joint = joint
                    yield replace(event, position=start.tokens + position)
            case _:
                yield event

    def _is_first(self, text: str) -> bool:
        """Whether this is the first text of a hop that follows another."""
        return bool(self._ends and text) and self._answer.length == self._start.characters

    def _without_end(self, details: Sequence[TokenDetail]) -> Iterator[Event]:
        """Details; that of a token that ends a hop is held until it is known what it stands for."""
        ends = self._tokenizer.end_ids
        self._held += [detail for detail in details if detail.token in ends]
        if kept := tuple(detail for detail in details if detail.token not in ends):
            yield Detailed(kept)

    def _space(self) -> Iterator[Event]:
        """The held tokens, now that they stand for the space between two hops."""
        space = self._tokenizer.encode(_SPACE)[-1]
        spaces = [
            replace(detail, token=space, text=_SPACE, end=detail.end + len(_SPACE))
            for detail in self._held
        ]
        self._held = []
        if spaces:
            yield Detailed(tuple(spaces))

    def _detail(self, detail: TokenDetail) -> TokenDetail:
        start = self._start
        return replace(
            detail,
            position=start.tokens + detail.position,
            start=start.characters + detail.start,
            end=start.characters + detail.end,
            documents=(*[0.0] * start.sources, *detail.documents),
        )


def whole(ends: Sequence[Finished], started: Sequence[float]) -> Finished:
    """The end of an answer whose hops ended as given; `started` in seconds of one clock."""
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
        stop=ends[-1].stop,
    )


# From the first hop; summed; averaged over tokens, or over jointly written ones. Others: latest.
_FIRST = ("ttft_ms", "prefill_ms")
_SUMMED = ("document_tokens",)
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
