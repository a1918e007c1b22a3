"""The parts of an answer being written on the device: text, sources, details, statistics.

It decides nothing by a clock and sends nothing: a run feeds it, and emits the events it returns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from app.generation.events import (
    Citation,
    Cited,
    Entry,
    Finished,
    GenerationRequest,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from dragon.inference import distribution
from dragon.inference.decoder import CutStatistics
from dragon.inference.distribution import full_of
from dragon.inference.estimates import Pace
from dragon.inference.reading import TextStream
from dragon.inference.scoring import Scored
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import shared
from dragon.link import control
from dragon.protocol.session import Session
from dragon.protocol.state import Settled
from dragon.sampling.role import Role

_CITED = re.compile(r"\[\s*\d{1,3}(?:\s*,\s*\d{1,3})*\s*\]")
_NUMBER = re.compile(r"\d+")
_BEGUN = re.compile(r"\[[\d,\s]{0,40}\Z")


class Citations:
    """Reads a text in pieces, cut anywhere, for "[1]", "[1] [2]" and "[1, 2]"."""

    def __init__(self) -> None:
        self._begun = ""  # what may become a citation
        self._length = 0  # characters before it

    def read(self, piece: str, sources: Sequence[Source]) -> list[Citation]:
        """The citations that a piece completes; a number without a source is plain text."""
        text, offset = self._begun + piece, self._length
        begun = _BEGUN.search(text)
        kept = begun.start() if begun else len(text)
        self._begun = text[kept:]
        self._length += kept
        numbered = {source.citation: index for index, source in enumerate(sources)}
        return [
            Citation(offset + number.start(), offset + number.end(), source)
            for cited in _CITED.finditer(text)
            for number in _NUMBER.finditer(text, cited.start(), cited.end())
            if (source := numbered.get(int(number.group()))) is not None
        ]


_MOST = 1200
"""The most entries kept; a long answer's beginning shows how it was written."""
_SIDES = {Role.DEVICE: "d", Role.CLOUD: "c"}
# By whether the device's draft was accepted, and the cloud's.
_VERDICTS = {(True, True): "=", (True, False): "d", (False, True): "c", (False, False): "."}


@dataclass
class Trace:
    """A timeline of (kind, position, from, to): `d` or `c` is a side's draft, `t` a final token.

    Times are in milliseconds since the answer began, on the device's clock.
    """

    started: float = field(default_factory=time.monotonic)
    entries: list[Entry] = field(default_factory=list)

    def draft(self, side: Role, position: int, decode_us: int, underway: float = 0.0) -> None:
        """A side decoded a position for `decode_us` microseconds, until `underway` seconds ago."""
        done = self._now() - 1000 * underway
        self._add(_SIDES[side], position, done - decode_us / 1000, done)

    def text(self, position: int, count: int) -> None:
        """`count` tokens from `position` on are final."""
        now = self._now()
        for at in range(position, position + count):
            self._add("t", at, now, now)

    def _now(self) -> float:
        return 1000 * (time.monotonic() - self.started)

    def _add(self, kind: str, position: int, begun: float, done: float) -> None:
        if len(self.entries) < _MOST:
            self.entries.append((kind, position, round(begun, 1), round(done, 1)))


class TokenTexts:
    """The text of each token of one text, and its character range."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = TextStream(tokenizer)
        self._length = 0
        self._count = 0

    def next(self, token: int) -> TokenDetail:
        """The next token's text and place; the rest of its detail is not known yet."""
        start = self._length
        if token not in self._tokenizer.end_ids:
            self._length += len(self._text.push([token]))
        text = self._tokenizer.piece(token).decode(errors="replace")
        self._count += 1
        return TokenDetail(self._count - 1, token, text, start, self._length, None)


def cut_off(details: Sequence[TokenDetail], length: int) -> list[TokenDetail]:
    """The tokens of a text cut to `length` characters of which something is left."""
    return [replace(each, end=min(each.end, length)) for each in details if each.start < length]


def described(detail: TokenDetail, scored: Scored, own_sources: int, sources: int) -> TokenDetail:
    """Fill in a token's detail: the first `own_sources` of `sources` documents are the device's."""
    found = scored.estimated
    return replace(
        detail,
        logprob=found.logprob,
        top=found.top,
        cloud=found.cloud,
        documents=(
            *_shares(own_sources, scored.own, 1.0 - found.cloud),
            *_shares(sources - own_sources, scored.cloud, found.cloud),
        ),
        tv=scored.tv,
    )


def _shares(sources: int, rows: Sequence[float], weight: float) -> tuple[float, ...]:
    """The probability that each of a side's sources accounts for a token.

    `rows` are the shares of the side's rows in the token, `weight` is the side's own share, 0 to 1.
    Sources that are concatenated in one row share its probability equally.
    """
    shares = shared([weight * share for share in rows], sources)
    return tuple([*shares, *[0.0] * sources][:sources])


class AnswerDetails:
    """The details of one answer's tokens, in order, once their text is final.

    `own_sources` counts the device's documents, which come first in the answer's sources;
    `cloud_weights` are the cloud's weights of its documents.
    """

    def __init__(self, top: int, tokenizer: Tokenizer) -> None:
        self._top = top
        self._texts = TokenTexts(tokenizer)
        self._held: list[TokenDetail] = []
        self._final = 0  # characters of the text that no stop string can cut any more
        self.own_sources = 0
        self.cloud_weights: tuple[float, ...] = ()

    def take(self, settled: Sequence[Settled], written: int) -> None:
        """Add the next tokens; `written` characters of the answer's text are now final."""
        self._held += [self._describe(token) for token in settled]
        self._final = written

    def end(self, length: int, *, stopped: bool) -> None:
        """The text is complete at `length` characters; `stopped` if a stop string cut it."""
        if stopped:
            self._held = cut_off(self._held, length)
        self._final = max(length, self._final)

    def take_described(self) -> tuple[TokenDetail, ...]:
        """The tokens whose text has become final since the last call, in order."""
        ready = tuple(takewhile(lambda detail: detail.end <= self._final, self._held))
        del self._held[: len(ready)]
        return ready

    def _describe(self, settled: Settled) -> TokenDetail:
        found = distribution.estimate(settled, self._top)
        own = tuple(full_of(settled.own).shares(settled.token))
        # For a token that the cloud did not draft, its rows' shares are unknown.
        cloud = settled.shares or self.cloud_weights
        scored = Scored(found, own, cloud, distribution.distance(settled))
        every = self.own_sources + len(self.cloud_weights)
        return described(self._texts.next(settled.token), scored, self.own_sources, every)


class Answer:
    """One answer: its `tokens`, including the one that ended it, and `length` characters of text.

    `details` describes its tokens, if requested.
    """

    def __init__(
        self, request: GenerationRequest, tokenizer: Tokenizer, cloud_citations: int | None = None
    ) -> None:
        """The cloud's passages are cited by numbers from `cloud_citations` on; None cites none."""
        self._request = request
        self._cloud_citations = cloud_citations
        self._citations = Citations()
        self._tokenizer = tokenizer
        self._stream = request.stream(tokenizer)
        self._found = SourcesFound(())  # the device's own, and what else is told of them
        self._public: tuple[Source, ...] = ()
        self._sources: tuple[Source, ...] = ()  # both sides'
        self.trace = Trace()
        self._decoding: float | None = None
        self._first: float | None = None
        self.details: AnswerDetails | None = None
        if request.details is not None:
            self.details = AnswerDetails(request.details.top, tokenizer)
        self.tokens: list[int] = []
        self.length = 0

    @property
    def stopped(self) -> bool:
        return self._stream.stopped

    @property
    def private(self) -> list[Source]:
        return [source for source in self._found.sources if source.side == "private"]

    def take_own(self, found: SourcesFound) -> SourcesFound:
        """Add what the device has retrieved; returns all sources."""
        self._found = found
        if self.details is not None:
            self.details.own_sources = len(found.sources)
        return self._all()

    def take_public(self, documents: Sequence[control.PublicDocument]) -> SourcesFound:
        """Replace the cloud's documents; returns all sources."""
        first = self._cloud_citations
        self._public = tuple(
            replace(public_source(document), citation=None if first is None else first + n)
            for n, document in enumerate(documents)
        )
        if self.details is not None:
            self.details.cloud_weights = tuple(source.weight for source in self._public)
        return self._all()

    def _all(self) -> SourcesFound:
        self._sources = (*self._found.sources, *self._public)
        return replace(self._found, sources=self._sources)

    def begin(self) -> None:
        """Its first token is decoded now."""
        self._decoding = time.monotonic()

    def take(self, tokens: Sequence[int], settled: Sequence[Settled], *, last: bool) -> TextDelta:
        """Add committed tokens, the last ones if `last`. Returns the text that is final.

        Tokens after a stop string are not added.
        """
        self._first = self._first or time.monotonic()
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
        last = last or self._stream.stopped
        if last:
            text += self._stream.finish()
        taken = tuple(self.tokens[before:])
        self.trace.text(before, len(taken))
        self.length += len(text)
        if self.details is not None:
            self.details.take(settled[: len(taken)], self.length)
        return TextDelta(text, taken, last)

    def cited(self, text: str) -> Cited | None:
        """The citations that newly final text completes, if any."""
        found = self._citations.read(text, self._sources)
        return Cited(tuple(found)) if found else None

    def finish(
        self, session: Session, pace: Pace, cuts: CutStatistics | None, *, linked: bool
    ) -> Finished:
        """The last event; `linked` adds the peer's statistics, and `pace` learns the answer's."""
        if self.details is not None:
            self.details.end(self.length, stopped=self.stopped)
        stats = self._statistics(session, pace, linked=linked)
        if cuts is not None and cuts.count:
            stats["wire_mass"] = cuts.mass / cuts.count
            stats["wire_tv"] = cuts.tv / cuts.count
        intervals, count = session.intervals(), len(self.tokens)
        ended = self.stopped or self.tokens[-1] in self._tokenizer.end_ids
        return Finished(
            reason="stop" if ended else "length",
            prompt_tokens=self._request.prompt_tokens(self._tokenizer),
            completion_tokens=count,
            participation=tuple((a, min(b, count)) for a, b in intervals if a < count),
            stats={name: round(value, 4) for name, value in stats.items()},
            verdicts="".join(_VERDICTS[each] for each in session.agreement.verdicts[:count]),
            aggregators="".join(_SIDES[each] for each in session.agreement.aggregators[:count]),
            trace=tuple(self.trace.entries),
            stop=self._stream.met,
        )

    def _statistics(self, session: Session, pace: Pace, *, linked: bool) -> dict[str, float]:
        agreement, now = session.agreement, time.monotonic()
        decoding = self._decoding or now
        stats = {
            "ttft_ms": 1000 * ((self._first or now) - self.trace.started),
            "prefill_ms": 1000 * (decoding - self.trace.started),
            "ms_per_token": 1000 * (now - decoding) / max(1, len(self.tokens)),
        }
        if agreement.verdicts:
            stats["accept_device"], stats["accept_cloud"] = agreement.acceptance()
            pace.accept_device.add(stats["accept_device"])
            pace.accept_cloud.add(stats["accept_cloud"])
            stats["tv"] = agreement.tv / len(agreement.verdicts)
            stats["window"] = session.window
        seconds = {"decode_device_ms": pace.decode.value}
        if linked:
            seconds["rtt_ms"] = pace.link.round_trip.value
            seconds["decode_cloud_ms"] = pace.remote_decode.value
        stats |= {name: 1000 * value for name, value in seconds.items() if value is not None}
        texts = [source.text for source in self._sources]
        stats["document_tokens"] = sum(len(self._tokenizer.encode(text)) for text in texts)
        return stats


def public_source(document: control.PublicDocument) -> Source:
    return Source(
        "public",
        document.id,
        document.title,
        document.text,
        score=document.score,
        weight=min(1.0, max(0.0, document.weight)),  # whatever a peer says
    )
