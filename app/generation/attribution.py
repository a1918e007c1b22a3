"""Per-token log-probabilities and source attribution of an answer that is being written.

The cloud describes its tokens in order as well: a token it has skipped it will not describe any
more, and the device describes that one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.generation.events import TokenDetail
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
    """A token that is not described yet; `shares` are those of the cloud's rows."""

    settled: Settled
    detail: TokenDetail
    mixture: Mixture | None = None
    shares: tuple[float, ...] = ()
    asked: tuple[int, ...] = ()
    estimated: Estimated | None = None


class TokenTexts:
    """The text of each token of one text, and its range of characters."""

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
    """The details of one answer's tokens, emitted in the tokens' order.

    Each method may leave questions for the cloud (`take_questions`) and described tokens
    (`take_described`). `sources` counts the answer's documents: first the `own_sources` of the
    device, then the cloud's.
    """

    def __init__(self, top: int, tokenizer: Tokenizer) -> None:
        self._top = top
        self._texts = TokenTexts(tokenizer)
        self._questions: list[Question] = []
        self._described: list[TokenDetail] = []
        self._final = 0  # characters of the text that no stop string can cut any more
        self._waiting: dict[int, _Waiting] = {}
        self.own_sources = 0
        self.sources = 0

    @property
    def complete(self) -> bool:
        """Whether every token taken is described."""
        return not self._waiting

    def take_questions(self) -> list[Question]:
        """Questions to send to the cloud, in order."""
        questions, self._questions = self._questions, []
        return questions

    def take_described(self) -> tuple[TokenDetail, ...]:
        """The tokens described since the last call, in order."""
        described, self._described = self._described, []
        return tuple(described)

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

    def receive(self, message: DetailMessage) -> None:
        """Take a message of the cloud."""
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
        """Nothing more comes from the cloud: the device describes the rest alone."""
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
            self._questions.append(Question(settled.position, settled.checksum, waiting.asked))
        else:
            waiting.estimated = waiting.mixture.estimate()

    def _alone(self, waiting: _Waiting) -> None:
        full = full_of(waiting.settled.own)
        waiting.shares, waiting.settled = (), replace(waiting.settled, remote=None)
        waiting.estimated = logprobs.alone(full, waiting.settled.token, self._top)

    def _release(self) -> None:
        """Emit the first tokens, as far as they are known and their text is final."""
        for position, waiting in list(self._waiting.items()):
            if waiting.estimated is None or waiting.detail.end > self._final:
                break
            del self._waiting[position]
            self._described.append(self._describe(waiting, waiting.estimated))

    def _describe(self, waiting: _Waiting, found: Estimated) -> TokenDetail:
        settled = waiting.settled
        shares = tuple(full_of(settled.own).shares(settled.token))
        scored = Scored(found, shares, waiting.shares, logprobs.distance(settled))
        return described(waiting.detail, scored, self.own_sources, self.sources)


def cut_off(detail: TokenDetail, length: int) -> TokenDetail | None:
    """What a stop string leaves of a token, in a text cut to `length` characters."""
    return None if detail.start >= length else replace(detail, end=min(detail.end, length))


def described(detail: TokenDetail, scored: Scored, own_sources: int, sources: int) -> TokenDetail:
    """Fill in a token's detail: of `sources` documents the first `own_sources` are the device's."""
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
    """The probability that a token is due to each of a side's sources.

    `rows` are the shares of the side's rows in the token, `weight` is the side's own share, 0 to 1.
    Sources that are concatenated in one row share its probability equally.
    """
    alike = max(1, sources // max(1, len(rows)))
    shares = [weight * share / alike for share in rows for _ in range(alike)]
    return tuple([*shares, *[0.0] * sources][:sources])
