"""How much of one's documents whoever reads the link could piece together, in 5-grams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragon.link.control import Open, ScoreText
from dragon.link.registry import Message
from dragon.protocol.messages import Candidate, Draft, Join

N = 5

Gram = tuple[int, ...]


def ngrams(tokens: Sequence[int]) -> set[Gram]:
    """Every run of `N` tokens."""
    return {tuple(tokens[i : i + N]) for i in range(len(tokens) - N + 1)}


@dataclass(frozen=True)
class Quoted:
    """Distinct 5-grams: of the documents, of those how many drafts and the joint answer hold."""

    documents: int
    drafts: int
    answer: int


@dataclass
class Outbound:
    """What an answer's outbound messages say, in the order they were sent.

    The conversation that it goes on from is not looked at.
    """

    _drafts: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    _candidates: list[Sequence[int]] = field(default_factory=list)
    _told: int = 0  # committed tokens that were sent as such

    def note(self, message: Message) -> None:
        """Take a message that was sent."""
        match message:
            case Draft():
                chain = (message.incarnation, message.epoch)
                self._drafts.append((chain, message.position, message.token))
            case Candidate():
                self._candidates.append(message.tokens)
            case ScoreText():
                self._candidates.append(message.text)
            case Open():
                self._told = max(self._told, len(message.committed))
            case Join():
                self._told = max(self._told, message.base + len(message.tail))
            case _:
                pass  # targets stand in the answer; the others hold no run of its tokens

    def drafted(self, committed: Sequence[int]) -> set[Gram]:
        """What drafts and candidates for a text that became `committed` have said.

        A draft right behind the one before it was conditioned on that; any other follows the
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

    def told(self, committed: Sequence[int], joint: int) -> set[Gram]:
        """What the cloud knows of the text, the first `joint` tokens of which it took part in."""
        return ngrams(committed[: max(self._told, joint)])


@dataclass(frozen=True)
class Stretch:
    """A stretch of an answer: what was sent for it, and its text.

    `documents` are the tokens of one's own documents that it was written from; the cloud took part
    in the first `joint` of the `committed` tokens.
    """

    outbound: Outbound
    documents: Sequence[Sequence[int]]
    committed: Sequence[int]
    joint: int


def quoted(stretches: Sequence[Stretch]) -> Quoted:
    """The count over the stretches of an answer."""
    wanted: set[Gram] = set()
    drafted: set[Gram] = set()
    told: set[Gram] = set()
    for stretch in stretches:
        wanted.update(*map(ngrams, stretch.documents))
        drafted |= stretch.outbound.drafted(stretch.committed)
        told |= stretch.outbound.told(stretch.committed, stretch.joint)
    return Quoted(len(wanted), len(wanted & drafted), len(wanted & told))
