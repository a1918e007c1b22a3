"""Citations in an answer, resolved to its sources as the text comes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.generation.events import Citation, Source

_CITED = re.compile(r"\[\s*\d{1,3}(?:\s*,\s*\d{1,3})*\s*\]")
_NUMBER = re.compile(r"\d+")
_BEGUN = re.compile(r"\[[\d,\s]{0,40}\Z")


class Citations:
    """Reads a text in pieces, cut anywhere, for "[1]", "[1] [2]" and "[1, 2]"."""

    def __init__(self) -> None:
        self._begun = ""  # what may become a citation
        self._length = 0  # characters before it

    def read(self, piece: str, sources: Sequence[Source]) -> list[Citation]:
        """The citations that a piece completes; a number without a source is plain text."""
        text = self._begun + piece
        found = list(self._resolved(text, sources))
        begun = _BEGUN.search(text)
        kept = begun.start() if begun else len(text)
        self._begun = text[kept:]
        self._length += kept
        return found

    def _resolved(self, text: str, sources: Sequence[Source]) -> Iterator[Citation]:
        numbered = {
            source.citation: index
            for index, source in enumerate(sources)
            if source.citation is not None
        }
        for cited in _CITED.finditer(text):
            for number in _NUMBER.finditer(text, cited.start(), cited.end()):
                source = numbered.get(int(number.group()))
                if source is not None:
                    at = self._length
                    yield Citation(at + number.start(), at + number.end(), source)
