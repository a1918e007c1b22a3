"""Measures what an observer of the link learns of an answer: its words, and documents' 5-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dragon.link import control
from dragon.link.registry import Message
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target

N = 5
_OF_NO_ANSWER = (
    control.Hello,
    control.Close,
    control.ScoreTaken,
    control.Fault,
    control.Ping,
    control.Pong,
    control.Probe,
    control.Draining,
)

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
    EARLIER = "earlier"
    INSTRUCTIONS = "instructions"
    ANSWERS = "answers"
    TOOLS = "tools"
    FORMAT = "format"
    WORDS = "words"
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
    """What was sent for an answer, as an observer of the link sees it.

    `runs` are the answer's tokens that were sent; the conversation before it does not count. Once
    the text is written, `documents` are the tokens of the user's documents in its prompt, and the
    cloud knows the first `told` of the `committed` tokens.
    """

    asked: Asked = Asked.NOTHING
    runs: list[list[int]] = field(default_factory=list)
    documents: Sequence[Sequence[int]] = ()
    committed: Sequence[int] = ()
    told: int = 0
    _drafts: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    _candidates: list[Sequence[int]] = field(default_factory=list)
    _end: tuple[type, int, int] | None = None  # what would continue the last run

    def note(self, message: Message) -> None:
        """Take a message into account. Raises `TypeError` for one of an unknown kind."""
        match message:
            case Draft():
                chain = (message.incarnation, message.epoch)
                self._drafts.append((chain, message.position, message.token))
                self._run(message, message.position, (message.token,), message.epoch)
            case Correction():
                self._run(message, message.position, message.tokens)
            case Target():
                self._run(message, message.position, (message.token,))
            case Candidate():
                self._candidates.append(message.tokens)
                self._run(message, 0, message.tokens)
            case control.ScoreText():
                self._ask(message)
                self._candidates.append(message.text)
                if message.prompt <= len(message.conversation):  # an answer, not the prompt
                    self._run(message, 0, message.text)
            case control.Open():
                self._ask(message)
                self.told = max(self.told, len(message.committed))
                self._candidates.append(message.premise)
                for begun in (message.premise, message.committed):
                    self._run(message, 0, begun)
            case control.Fetch():
                self._ask(message)
            case Join():
                self.told = max(self.told, message.base + len(message.tail))
                self._run(message, message.base, message.tail)
            case _ if not isinstance(message, _OF_NO_ANSWER):
                raise TypeError(f"what a {type(message).__name__} reveals of an answer is unknown")

    def _ask(self, message: control.Open | control.Fetch | control.ScoreText) -> None:
        self.asked = Asked.PROMPT if message.raw else Asked.QUESTION

    def _run(self, message: Message, position: int, tokens: Sequence[int], epoch: int = 0) -> None:
        if not tokens:
            return
        if self._end == (type(message), epoch, position):
            self.runs[-1] += tokens
        else:
            self.runs.append(list(tokens))
        self._end = type(message), epoch, position + len(tokens)

    def drafted(self) -> set[Gram]:
        """5-grams revealed by drafts and candidates.

        A draft that directly follows the previous one was conditioned on it; any other follows the
        committed text, which only grows.
        """
        drafted: set[Gram] = set().union(*map(ngrams, self._candidates))
        view: list[int] = []
        last: tuple[int, int] | None = None
        for chain, position, token in self._drafts:
            if chain != last or position != len(view):
                view = list(self.committed[:position])
            view.append(token)
            last = chain
            drafted.add(tuple(view[-N:]))
        return drafted


def quoted(sent: Iterable[Outbound]) -> GramCounts:
    """The counts over all that was sent for an answer."""
    wanted: set[Gram] = set()
    drafted: set[Gram] = set()
    revealed: set[Gram] = set()
    for each in sent:
        wanted.update(*map(ngrams, each.documents))
        drafted |= each.drafted()
        revealed |= ngrams(each.committed[: each.told])
    return GramCounts(len(wanted), len(wanted & drafted), len(wanted & revealed))


def left(
    sent: Sequence[Outbound], decode: Callable[[Sequence[int]], str], given: Iterable[Part]
) -> Left:
    """What left the device for an answer whose request gave the cloud the parts `given`."""
    asked = next((each.asked for each in sent if each.asked is not Asked.NOTHING), None)
    words = dict.fromkeys(decode(run).strip() for each in sent for run in each.runs)
    parts = [] if asked is None else list(dict.fromkeys(given))
    return Left(asked or Asked.NOTHING, list(filter(None, words)), parts)
