"""Nothing invented: a reply's numbers, codes and names must occur in its sources.

Of the likeliest tokens, those are excluded that would write a word with a digit, or with a capital
letter in mid-sentence, that occurs in no source. A reply may end only once it has a word of the
sources, and ends at a sentence it repeats.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from dragon.inference.tokenizer import Tokenizer

LIKELIEST = 64
"""Tokens that are considered; less likely ones are never written."""

_NAME = 1.5
"""A capitalised word is no name if the id of its lower-case form is less than this many times its
own: "Yes" opens more sentences than "yes" occurs in."""

_WORD = re.compile(r"[^\W_]+(?:[.,:/'’-][^\W_]+)*")
_SENTENCE = re.compile(r"[.!?](?:\s+\[\d+\])*\s+|\n+")
_CITED = re.compile(r"\[\d*\]?")


class Grounding:
    """What a row may write: `sources` are the lines before the question, and the question.

    `cited` are the numbers that the lines can be cited by.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sources: Sequence[str],
        cited: Collection[int],
        ends: Collection[int],
    ) -> None:
        self._tokenizer = tokenizer
        self._sources = " \n ".join(sources)
        self._cited = {str(number) for number in cited}
        self._ends = sorted(ends)

    @cached_property
    def _known(self) -> frozenset[str]:
        """The words of the sources, whole and split at every joint, in lower case."""
        words = set[str]()
        for word in _WORD.findall(self._sources.lower()):
            words.add(word)
            parts = re.split(r"[.,:/'’-]", word)
            words.update(parts)
        return frozenset(words)

    def allowed(self, text: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Tokens, int64 [n], at least one, that may follow `text`, given logits float32 [V]."""
        said = self._tokenizer.decode(text)
        if _repeats(said):
            return torch.tensor(self._ends)
        likeliest = torch.topk(logits, min(LIKELIEST, len(logits))).indices
        ids = likeliest[torch.isfinite(logits[likeliest])].tolist()
        kept = [each for each in ids if self._fits(said, text, each)]
        return torch.tensor(sorted(kept or self._ends))

    def _fits(self, said: str, text: Sequence[int], token: int) -> bool:
        if token in self._ends:
            return self._says(said) and self._grounded(said, len(said), whole=True)
        longer = self._tokenizer.decode([*text, token])
        if longer.endswith("\N{REPLACEMENT CHARACTER}"):
            return True
        if longer.rstrip().endswith("[") and not self._says(said):
            return False
        return self._grounded(longer, len(said), whole=False)

    def _says(self, text: str) -> bool:
        """Whether a text has a word of the sources: "Yes" alone says nothing."""
        words = _WORD.findall(_CITED.sub(" ", text).lower())
        return any(word in self._known for word in words)

    def _grounded(self, text: str, since: int, *, whole: bool) -> bool:
        """Whether what a text has from `since` on is grounded in the sources.

        Its last word may be unfinished, unless the text is `whole`. A word that the other side
        began in an ungrounded way is the other side's responsibility.
        """
        start = text.rfind(" ", 0, max(0, since - 40)) + 1
        for number in _CITED.finditer(text, start):
            digits = number.group().strip("[]")
            if number.end() > since and digits:
                exact = number.group().endswith("]")
                if not any(digits == n if exact else n.startswith(digits) for n in self._cited):
                    return False
        plain = _CITED.sub(lambda found: " " * len(found.group()), text)
        for found in _WORD.finditer(plain, start):
            if found.end() < since:
                continue
            word = found.group()
            opens = _opens_sentence(plain, found.start())
            before = plain[found.start() : since].rstrip("-.,:/'’")
            if before and not self._may_be(before, opens, begun=True):
                continue
            if not whole and self._joins(plain[found.start() :]):
                continue
            begun = not whole and found.end() == len(plain)
            if not self._may_be(word, opens, begun):
                return False
        return True

    def _joins(self, word: str) -> bool:
        """Whether a word that ends in a mark begins one of the sources: "AM-55-"."""
        return not word[-1].isalnum() and any(each.startswith(word.lower()) for each in self._known)

    def _may_be(self, word: str, opens: bool, begun: bool) -> bool:
        """Whether a word, unfinished if `begun`, is in the sources, or need not be."""
        if any(map(str.isdigit, word)):
            return self._stands(word, begun)
        if not word[0].isupper() or (len(word) == 1 and not begun):
            return True
        # A sentence begins with a capital: a word that is no name also exists in lower case.
        return self._stands(word, begun) or (opens and self._is_common(word, begun))

    def _is_common(self, word: str, begun: bool) -> bool:
        """Whether the vocabulary has a word in lower case rather than as a name.

        Of two tokens, the one with the smaller id is more frequent.
        """
        small = f" {word.lower()}"
        if begun:
            place = bisect_left(self._common, small)
            return place < len(self._common) and self._common[place].startswith(small)
        tokens, rare = self._tokenizer.by_text, self._tokenizer.vocab_size
        return tokens.get(small, rare) < _NAME * tokens.get(f" {word}", rare)

    @cached_property
    def _common(self) -> list[str]:
        return sorted(
            text for text in self._tokenizer.by_text if text[:1] == " " and text.islower()
        )

    def _stands(self, word: str, begun: bool) -> bool:
        word = word.lower()
        if word in self._known:
            return True
        if begun:
            return any(each.startswith(word) for each in self._known)
        stem = word.removesuffix("'s").removesuffix("’s")
        return stem in self._known


def _opens_sentence(text: str, at: int) -> bool:
    before = text[:at].rstrip()
    return not before or before[-1] in '.!?:\n"“'


def _repeats(text: str) -> bool:
    """Whether the last complete sentence of a text occurred before."""
    sentences = [" ".join(_CITED.sub("", each).lower().split()).rstrip(".!? ")
                 for each in _SENTENCE.split(text)]  # fmt: skip
    if text and text.rstrip()[-1:] not in ".!?" and not text.endswith("\n"):
        sentences = sentences[:-1]
    sentences = [each for each in sentences if each]
    return bool(sentences) and sentences[-1] in sentences[:-1]
