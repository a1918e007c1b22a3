"""Measures how much of one's documents an observer of the link could reconstruct, in 5-grams."""

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
    """Counts of distinct 5-grams: in the documents, and of those in drafts and in the answer."""

    documents: int
    drafts: int
    answer: int


@dataclass
class Outbound:
    """The tokens revealed by an answer's outbound messages, in the order they were sent.

    The conversation before the answer does not count.
    """

    _drafts: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    _candidates: list[Sequence[int]] = field(default_factory=list)
    _sent: int = 0  # committed tokens that were sent as such

    def note(self, message: Message) -> None:
        """Record a message that was sent."""
        match message:
            case Draft():
                chain = (message.incarnation, message.epoch)
                self._drafts.append((chain, message.position, message.token))
            case Candidate():
                self._candidates.append(message.tokens)
            case ScoreText():
                self._candidates.append(message.text)
            case Open():
                self._sent = max(self._sent, len(message.committed))
            case Join():
                self._sent = max(self._sent, message.base + len(message.tail))
            case _:
                pass  # targets are part of the answer; other messages hold no run of its tokens

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

    def revealed(self, committed: Sequence[int], joint: int) -> set[Gram]:
        """5-grams of the text known to the cloud, which took part in its first `joint` tokens."""
        return ngrams(committed[: max(self._sent, joint)])


@dataclass(frozen=True)
class Hop:
    """One hop of an answer: what was sent for it, and its text.

    `documents` are the tokens of one's own documents in its prompt; the cloud took part in the
    first `joint` of the `committed` tokens.
    """

    outbound: Outbound
    documents: Sequence[Sequence[int]]
    committed: Sequence[int]
    joint: int


def quoted(hops: Sequence[Hop]) -> Quoted:
    """The counts over all hops of an answer."""
    wanted: set[Gram] = set()
    drafted: set[Gram] = set()
    revealed: set[Gram] = set()
    for hop in hops:
        wanted.update(*map(ngrams, hop.documents))
        drafted |= hop.outbound.drafted(hop.committed)
        revealed |= hop.outbound.revealed(hop.committed, hop.joint)
    return Quoted(len(wanted), len(wanted & drafted), len(wanted & revealed))
