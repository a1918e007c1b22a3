"""What is told of an answer's tokens, in their order, as soon as the cloud has said its part.

The cloud tells of its tokens in order, too: what it has passed over it will not tell any more, and
that is told by the device alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.generation.events import Detailed, TokenDetail
from dragon.inference import logprobs
from dragon.inference.distribution import full_of
from dragon.inference.logprobs import (
    CloudDetail,
    DetailMessage,
    Estimated,
    Mixture,
    Question,
    Values,
)
from dragon.inference.scoring import Scored
from dragon.inference.tokenizer import TextStream, Tokenizer
from dragon.protocol.committed_text import Settled


@dataclass
class _Waiting:
    """A token whose details are not told yet; `shares` are those of the cloud's rows."""

    settled: Settled
    detail: TokenDetail
    mixture: Mixture | None = None
    shares: tuple[float, ...] = ()
    asked: tuple[int, ...] = ()
    estimated: Estimated | None = None


class TokenTexts:
    """The text of each token and its range of characters, along one text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = TextStream(tokenizer)
        self._length = 0
        self._count = 0

    def next(self, token: int) -> TokenDetail:
        """The next token, of which nothing else is known yet."""
        start = self._length
        if token not in self._tokenizer.end_ids:
            self._length += len(self._text.push([token]))
        text = self._tokenizer.piece(token).decode(errors="replace")
        self._count += 1
        return TokenDetail(self._count - 1, token, text, start, self._length, None)


class AnswerDetails:
    """Of one answer. `ask` sends a question to the cloud, `tell` takes what people are told.

    `sources` counts its documents: first the `own_sources` of the device, then the cloud's.
    """

    def __init__(
        self,
        top: int,
        tokenizer: Tokenizer,
        *,
        ask: Callable[[Question], None],
        tell: Callable[[Detailed], None],
    ) -> None:
        self._top = top
        self._texts = TokenTexts(tokenizer)
        self._ask = ask
        self._tell = tell
        self._final = 0  # characters of the text that no stop string can cut any more
        self._waiting: dict[int, _Waiting] = {}
        self.own_sources = 0
        self.sources = 0

    @property
    def complete(self) -> bool:
        """Whether all that was taken is told."""
        return not self._waiting

    def take(self, settled: Sequence[Settled], written: int) -> None:
        """Tokens of the answer; `written` characters of its text are final by now."""
        for token in settled:
            self._waiting[token.position] = waiting = _Waiting(token, self._texts.next(token.token))
            if token.remote is None:
                self._alone(waiting)
        self._final = written
        self._release()

    def end(self, length: int, *, stopped: bool) -> None:
        """The answer's text has `length` characters, no token is to come; a stop string may cut."""
        for position, waiting in list(self._waiting.items()):
            detail = cut_off(waiting.detail, length) if stopped else waiting.detail
            if detail is None:
                del self._waiting[position]
            else:
                waiting.detail = detail
        self._final = max(length, self._final)
        self._release()

    def hear(self, message: DetailMessage) -> None:
        """From the cloud."""
        waiting = self._waiting.get(message.position)
        if waiting is None or waiting.settled.checksum != message.checksum:
            return  # of another text, or of one that was cut off
        match message:
            case CloudDetail() if waiting.settled.remote is not None and not waiting.mixture:
                waiting.shares = message.shares
                waiting.mixture = Mixture(waiting.settled, message, self._top)
                for position, earlier in self._waiting.items():
                    if position < message.position and earlier.mixture is None:
                        self._alone(earlier)
                self._proceed(waiting)
            case Values() if waiting.mixture is not None and waiting.asked:
                if len(message.logprobs) == len(waiting.asked):
                    waiting.mixture.learn(waiting.asked, message.logprobs)
                    self._proceed(waiting)
                else:
                    self._alone(waiting)
        self._release()

    def lose(self) -> None:
        """Nothing more comes from the cloud."""
        for waiting in self._waiting.values():
            if waiting.estimated is None:
                self._alone(waiting)
        self._release()

    def _proceed(self, waiting: _Waiting) -> None:
        """Ask for what is still in doubt, or take what is known."""
        assert waiting.mixture is not None
        waiting.asked = waiting.mixture.in_doubt()
        if waiting.asked:
            settled = waiting.settled
            self._ask(Question(settled.position, settled.checksum, waiting.asked))
        else:
            waiting.estimated = waiting.mixture.estimate()

    def _alone(self, waiting: _Waiting) -> None:
        full = full_of(waiting.settled.own)
        waiting.shares, waiting.settled = (), replace(waiting.settled, remote=None)
        waiting.estimated = logprobs.alone(full, waiting.settled.token, self._top)

    def _release(self) -> None:
        """Tell of the first tokens, as far as they are known and their text is final."""
        told = []
        for position, waiting in list(self._waiting.items()):
            if waiting.estimated is None or waiting.detail.end > self._final:
                break
            del self._waiting[position]
            told.append(self._told(waiting, waiting.estimated))
        if told:
            self._tell(Detailed(tuple(told)))

    def _told(self, waiting: _Waiting, found: Estimated) -> TokenDetail:
        settled = waiting.settled
        shares = tuple(full_of(settled.own).shares(settled.token))
        scored = Scored(found, shares, waiting.shares, logprobs.distance(settled))
        return described(waiting.detail, scored, self.own_sources, self.sources)


def cut_off(detail: TokenDetail, length: int) -> TokenDetail | None:
    """What a stop string leaves of a token, in a text cut to `length` characters."""
    return None if detail.start >= length else replace(detail, end=min(detail.end, length))


def described(detail: TokenDetail, scored: Scored, own_sources: int, sources: int) -> TokenDetail:
    """A given token, of `sources` documents the first `own_sources` of which are the device's."""
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
    """How likely each source of a side said a token, of its rows' shares and the side's `weight`.

    Sources that share a row, concatenated before the question, share in what it said alike.
    """
    alike = max(1, sources // max(1, len(rows)))
    shares = [weight * share / alike for share in rows for _ in range(alike)]
    return tuple([*shares, *[0.0] * sources][:sources])
