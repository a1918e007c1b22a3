"""How much of one's documents whoever reads the link could piece together, in 5-grams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dragon.details import DetailMessage
from dragon.link.codec import DraftHead
from dragon.link.messages import AnyControl, CandidateSent, Joined, Open, ScoreAsked
from dragon.protocol import Draft, Target

N = 5

Gram = tuple[int, ...]
Sent = DraftHead | Draft | Target | DetailMessage | AnyControl


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

    def note(self, message: Sent) -> None:
        """Take a message that was sent."""
        match message:
            case Draft() | DraftHead():
                chain = (message.incarnation, message.epoch)
                self._drafts.append((chain, message.position, message.token))
            case CandidateSent():
                self._candidates.append(message.tokens)
            case ScoreAsked():
                self._candidates.append(message.text)
            case Open():
                self._told = max(self._told, len(message.committed))
            case Joined():
                self._told = max(self._told, message.base + len(message.tail))
            case _:
                pass  # targets stand in the answer; the others hold no run of its tokens

    def quoted(
        self, documents: Iterable[Sequence[int]], committed: Sequence[int], joint: int
    ) -> Quoted:
        """The count for documents' and the answer's tokens, whose first `joint` the cloud knows.

        A draft right behind the one before it was conditioned on that; any other follows the
        committed text, which only grows.
        """
        wanted: set[Gram] = set().union(*map(ngrams, documents))
        drafted: set[Gram] = set().union(*map(ngrams, self._candidates))
        view: list[int] = []
        last: tuple[int, int] | None = None
        for chain, position, token in self._drafts:
            if chain != last or position != len(view):
                view = list(committed[:position])
            view.append(token)
            last = chain
            drafted.add(tuple(view[-N:]))
        answer = ngrams(committed[: max(self._told, joint)])
        return Quoted(len(wanted), len(wanted & drafted), len(wanted & answer))
