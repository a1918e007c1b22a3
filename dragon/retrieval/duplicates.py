"""Passages that say the same in the same words count once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

from dragon.retrieval.lexical import words

_SHARED = 0.9
_PLAIN = re.compile(r"\b[a-z]+\b")


class Text(Protocol):
    """Anything with a text."""

    @property
    def text(self) -> str: ...


T = TypeVar("T", bound=Text)


def distinct(passages: Iterable[T]) -> list[T]:
    """The passages in their order, without those that nearly repeat an earlier one."""
    kept: list[T] = []
    for passage in passages:
        if not any(alike(passage.text, other.text) for other in kept):
            kept.append(passage)
    return kept


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same but for punctuation, case, and at most a few plain words.

    A number, a code or a name that differs makes another statement, however alike the rest is.
    """
    if words(one) == words(other):
        return True
    a, b = set(words(one)), set(words(other))
    if len(a & b) < _SHARED * len(a | b):
        return False
    plain = {*_PLAIN.findall(one), *_PLAIN.findall(other)}
    return a ^ b <= plain
