"""Measures what an observer of the link learns of an answer: its words, and documents' 5-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dragon.link.control import (
    Close,
    Draining,
    Fault,
    Fetch,
    Hello,
    Open,
    Ping,
    Pong,
    Probe,
    ScoreTaken,
    ScoreText,
)
from dragon.link.registry import Message
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target

N = 5
_OF_NO_ANSWER = Hello, Close, ScoreTaken, Fault, Ping, Pong, Probe, Draining

Gram = tuple[int, ...]


def ngrams(tokens: Sequence[int]) -> set[Gram]:
    return {tuple(tokens[i : i + N]) for i in range(len(tokens) - N + 1)}


@dataclass(frozen=True)
class GramCounts:
    """Distinct runs of five tokens in the documents that an answer was written from.

    Of those in `documents`, `drafts` were in drafts that were sent, and `answer` are in the part of
    the answer that the cloud knows.
    """

    documents: int
    drafts: int
    answer: int


class PartKind(StrEnum):
    """The kinds of the user's words in what the cloud is asked."""

    QUESTION = "question"
    EARLIER = "earlier"  # questions
    INSTRUCTIONS = "instructions"
    ANSWERS = "answers"  # what the cloud knows of earlier ones
    TOOLS = "tools"
    FORMAT = "format"
    WORDS = "words"  # made likelier or less likely by a bias
    SEARCH = "search"  # the question, reworded to search public documents
    PROMPT = "prompt"


_SAID = {
    PartKind.EARLIER: "earlier questions",
    PartKind.INSTRUCTIONS: "instructions",
    PartKind.ANSWERS: "what the cloud knows of earlier answers",
    PartKind.TOOLS: "tools, with their calls",
    PartKind.FORMAT: "the format asked for",
    PartKind.WORDS: "words asked for or against",
}


@dataclass(frozen=True)
class Part:
    """Words of a kind; None if an earlier answer has them in the ledger already."""

    kind: PartKind
    text: str | None


class Asked(StrEnum):
    """What the cloud was asked for an answer."""

    NOTHING = "nothing"
    QUESTION = "question"
    PROMPT = "prompt"


@dataclass(frozen=True)
class Left:
    """What left the device for an answer: what the cloud was asked, and words of the answer.

    The words, and the parts that it was `given`, are None if they are no longer known.
    """

    asked: Asked
    words: Sequence[str] | None = ()
    given: Sequence[Part] | None = ()

    def __str__(self) -> str:
        if self.asked is Asked.NOTHING:
            return "Nothing left this device"
        kinds = {part.kind for part in self.given or ()}
        what = ", ".join([f"Your {self.asked}", *(_SAID[kind] for kind in _SAID if kind in kinds)])
        if self.words is None:
            return f"{what}, and perhaps words of a document that was deleted since"
        if not self.words:
            return what
        return f"{what} and these words: " + ", ".join(f"“{word}”" for word in self.words)


@dataclass
class Outbound:
    """The tokens revealed by an answer's outbound messages, in the order they were sent.

    The conversation before the answer does not count. `runs` are the answer's tokens that were
    sent.
    """

    asked: Asked = Asked.NOTHING
    runs: list[list[int]] = field(default_factory=list)
    _drafts: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    _candidates: list[Sequence[int]] = field(default_factory=list)
    _sent: int = 0  # committed tokens sent as such
    _end: tuple[type, int, int] | None = None  # what would continue the last run

    def note(self, message: Message) -> None:
        match message:
            case Draft():
                chain = (message.incarnation, message.epoch)
                self._drafts.append((chain, message.position, message.token))
                self._run(message, message.position, (message.token,), message.epoch)
            case Correction() | Target():
                tokens = message.tokens if isinstance(message, Correction) else (message.token,)
                self._run(message, message.position, tokens)
            case Candidate():
                self._candidates.append(message.tokens)
                self._run(message, 0, message.tokens)
            case ScoreText():
                self._ask(message)
                self._candidates.append(message.text)
                if message.prompt <= len(message.conversation):  # an answer, not the prompt
                    self._run(message, 0, message.text)
            case Open():
                self._ask(message)
                self._sent = max(self._sent, len(message.committed))
                if message.premise:
                    self._candidates.append(message.premise)
                for begun in (message.premise, message.committed):
                    self._run(message, 0, begun)
            case Fetch():
                self._ask(message)
            case Join():
                self._sent = max(self._sent, message.base + len(message.tail))
                self._run(message, message.base, message.tail)
            case _ if not isinstance(message, _OF_NO_ANSWER):
                raise TypeError(f"what a {type(message).__name__} reveals of an answer is unknown")

    def words(self, decode: Callable[[Sequence[int]], str]) -> list[str]:
        """The texts of all runs, each once."""
        texts = (decode(run).strip() for run in self.runs)
        return list(dict.fromkeys(text for text in texts if text))

    def _ask(self, message: Open | Fetch | ScoreText) -> None:
        self.asked = Asked.PROMPT if message.raw else Asked.QUESTION

    def _run(self, message: Message, position: int, tokens: Sequence[int], epoch: int = 0) -> None:
        if not tokens:
            return
        if self._end == (type(message), epoch, position):
            self.runs[-1] += tokens
        else:
            self.runs.append(list(tokens))
        self._end = type(message), epoch, position + len(tokens)

    def drafted(self, committed: Sequence[int]) -> set[Gram]:
        """5-grams revealed by drafts and candidates for a text that became `committed`.

        A draft that directly follows the previous one was conditioned on it; any other follows the
        committed text, which only grows.
        """
        drafted: set[Gram] = set().union(*map(ngrams, self._candidates))
        view: list[int] = []
        last: tuple[int, int] | None = None
        for chain, position, token in self._drafts:
            if chain != last or position != len(view):
                view = list(committed[:position])
            view.append(token)
            last = chain
            drafted.add(tuple(view[-N:]))
        return drafted

    def revealed(self, committed: Sequence[int], told: int) -> set[Gram]:
        """5-grams of the text known to the cloud, which was told its first `told` tokens."""
        return ngrams(committed[: max(self._sent, told)])


@dataclass(frozen=True)
class Sent:
    """What was sent for an answer up to some point, and its text so far.

    `documents` are the tokens of the user's documents in its prompt; the cloud knows the first
    `told` of the `committed` tokens.
    """

    outbound: Outbound
    documents: Sequence[Sequence[int]]
    committed: Sequence[int]
    told: int


def quoted(sent: Sequence[Sent]) -> GramCounts:
    """The counts over all that was sent for an answer."""
    wanted: set[Gram] = set()
    drafted: set[Gram] = set()
    revealed: set[Gram] = set()
    for each in sent:
        wanted.update(*map(ngrams, each.documents))
        drafted |= each.outbound.drafted(each.committed)
        revealed |= each.outbound.revealed(each.committed, each.told)
    return GramCounts(len(wanted), len(wanted & drafted), len(wanted & revealed))


def left(
    outbound: Sequence[Outbound], decode: Callable[[Sequence[int]], str], given: Iterable[Part]
) -> Left:
    """What left the device for an answer whose request gave the cloud the parts `given`."""
    asked = next((each.asked for each in outbound if each.asked is not Asked.NOTHING), None)
    words = dict.fromkeys(word for each in outbound for word in each.words(decode))
    parts = [] if asked is None else list(dict.fromkeys(given))
    return Left(asked or Asked.NOTHING, list(words), parts)
