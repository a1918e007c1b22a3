"""Removes near-duplicate passages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from dragon.retrieval.lexical import words
from dragon.retrieval.relevance import Hit

_SHARED = 0.9
_PLAIN = re.compile(r"\b[a-z]+\b")


H = TypeVar("H", bound=Hit)


def distinct(passages: Iterable[H]) -> list[H]:
    """The passages in order, without near-duplicates of earlier ones."""
    kept: list[tuple[H, _Words]] = []
    for passage in passages:
        own = _Words(passage.text)
        if not any(own.alike(other) for _, other in kept):
            kept.append((passage, own))
    return [passage for passage, _ in kept]


class _Words:
    """The words of a text: in order, as a set, and the lower-case ASCII ones."""

    def __init__(self, text: str) -> None:
        self._ordered = words(text)
        self._all = set(self._ordered)
        self._plain = set(_PLAIN.findall(text))

    def alike(self, other: _Words) -> bool:
        """Whether the texts are equal but for punctuation, case and a few lower-case words.

        Texts that differ in a number, a code or a name are distinct, however similar otherwise.
        """
        if self._ordered == other._ordered:
            return True
        if len(self._all & other._all) < _SHARED * len(self._all | other._all):
            return False
        return self._all ^ other._all <= self._plain | other._plain
