"""Per-token log-probabilities and source attribution of an answer being written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.generation.events import TokenDetail
from dragon.inference import distribution
from dragon.inference.distribution import full_of
from dragon.inference.reading import TextStream
from dragon.inference.scoring import Scored
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import shared
from dragon.protocol.state import Settled


class TokenTexts:
    """The text of each token of one text, and its character range."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = TextStream(tokenizer)
        self._length = 0
        self._count = 0

    def next(self, token: int) -> TokenDetail:
        """The next token, with nothing else known yet."""
        start = self._length
        if token not in self._tokenizer.end_ids:
            self._length += len(self._text.push([token]))
        text = self._tokenizer.piece(token).decode(errors="replace")
        self._count += 1
        return TokenDetail(self._count - 1, token, text, start, self._length, None)


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
        """Add tokens of the answer, of whose text `written` characters are now final."""
        self._held += [self._describe(token) for token in settled]
        self._final = written

    def end(self, length: int, *, stopped: bool) -> None:
        """The text ends at `length` characters, perhaps by a stop string; no more tokens come."""
        if stopped:
            cut = [cut_off(detail, length) for detail in self._held]
            self._held = [detail for detail in cut if detail is not None]
        self._final = max(length, self._final)

    def take_described(self) -> tuple[TokenDetail, ...]:
        """The tokens whose text has become final since the last call, in order."""
        ready = 0
        while ready < len(self._held) and self._held[ready].end <= self._final:
            ready += 1
        described, self._held = self._held[:ready], self._held[ready:]
        return tuple(described)

    def _describe(self, settled: Settled) -> TokenDetail:
        found = distribution.estimate(settled, self._top)
        own = tuple(full_of(settled.own).shares(settled.token))
        # For a token that the cloud did not draft, its rows' shares are unknown.
        cloud = settled.shares or self.cloud_weights
        scored = Scored(found, own, cloud, distribution.distance(settled))
        every = self.own_sources + len(self.cloud_weights)
        return described(self._texts.next(settled.token), scored, self.own_sources, every)


def cut_off(detail: TokenDetail, length: int) -> TokenDetail | None:
    """What a stop string leaves of a token, in a text cut to `length` characters."""
    return None if detail.start >= length else replace(detail, end=min(detail.end, length))


def described(detail: TokenDetail, scored: Scored, own_sources: int, sources: int) -> TokenDetail:
    """Fill in a token's detail: the first `own_sources` of `sources` documents are the device's."""
    found = scored.estimated
    return replace(
        detail,
        logprob=found.logprob,
        top=found.top,
        cloud=found.cloud,
        documents=(
            *shares_of(own_sources, scored.own, 1.0 - found.cloud),
            *shares_of(sources - own_sources, scored.cloud, found.cloud),
        ),
        tv=scored.tv,
    )


def shares_of(sources: int, rows: Sequence[float], weight: float) -> tuple[float, ...]:
    """The probability that each of a side's sources accounts for a token.

    `rows` are the shares of the side's rows in the token, `weight` is the side's own share, 0 to 1.
    Sources that are concatenated in one row share its probability equally.
    """
    shares = shared([weight * share for share in rows], sources)
    return tuple([*shares, *[0.0] * sources][:sources])
