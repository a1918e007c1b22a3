"""Passages of several sentences around the sentences that a search found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from dragon.retrieval.relevance import Hit


class Length(NamedTuple):
    """Bytes of a passage: it grows until it has `least`, and never beyond `most`."""

    least: int
    most: int


TO_WRITE_FROM = Length(800, 1200)
"""200 to 300 tokens of English, for a model that writes."""

TO_READ = Length(400, 600)
"""A few sentences, for a person who checks whether they help."""

REACH = 48
"""How many sentences before and after a hit may be part of its passage."""

SENTENCES = 4
"""How many hits to consider per passage: one may contain several."""


H = TypeVar("H", bound=Hit)


def around(
    hits: Sequence[H], near: Mapping[int, Sequence[H]], most: int, length: Length = TO_WRITE_FROM
) -> list[tuple[H, list[H]]]:
    """At most `most` passages, best first: each hit with the sentences around it.

    `near` are the neighbours of each hit by its id, itself among them, with ids in the order of
    their document. A hit in an earlier passage is part of that one, and no sentence is in two.
    """
    taken: set[int] = set()
    passages: list[tuple[H, list[H]]] = []
    for hit in hits:
        if hit.id in taken or len(passages) == most:
            continue
        if grown := _grown(hit.id, near.get(hit.id, ()), taken, length):
            taken.update(sentence.id for sentence in grown)
            passages.append((hit, grown))
    return passages


def heading(sentence: Hit, near: Sequence[Hit]) -> str:
    """The heading of a sentence: its context without the part that is a sentence `near` it."""
    context = sentence.context
    for other in near:
        if context == other.text:
            return ""
        if context.endswith(f": {other.text}"):
            return context.removesuffix(f": {other.text}")
    return context


def _grown(hit: int, near: Sequence[H], taken: Collection[int], length: Length) -> list[H]:
    """A sentence with those after and before it in turn; none if it no longer exists."""
    at = next((place for place, sentence in enumerate(near) if sentence.id == hit), None)
    if at is None:
        return []
    first, end, size = at, at + 1, _bytes(near[at])
    open_ = {1, -1}  # the directions in which it may still grow
    while size < length.least and open_:
        for direction in (1, -1):
            place = end if direction == 1 else first - 1
            if direction not in open_ or size >= length.least:
                continue
            more = _bytes(near[place]) if 0 <= place < len(near) else length.most
            if size + more > length.most or near[place].id in taken:
                open_.remove(direction)
                continue
            first, end, size = min(first, place), max(end, place + 1), size + more
    return list(near[first:end])


def _bytes(sentence: Hit) -> int:
    return len(sentence.text.encode())
