"""Cutting a text into chunks that fit the language model's document slot.

Greedy packing: each chunk takes as much text as its tokens allow and ends at the strongest break
that leaves it reasonably full: a heading, a paragraph, a line, a sentence, a word. Only a window of
the text is tokenised at a time, so memory does not grow with the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

PAGE_BREAK = "\f"

# English prose has about 4 characters a token. What is denser than this is a run of one character
# or of white space, where a shorter chunk loses nothing.
_WINDOW_CHARACTERS_PER_TOKEN = 8

# A break is taken only where it leaves the chunk at least this full; a heading or a one-line
# paragraph would else become a chunk of its own, cut off from what it introduces.
_MINIMUM_FILL = 0.4

_VISIBLE = re.compile(r"\S")
_NOT_AFTER_ABBREVIATION = "".join(
    rf"(?<!\b{word}\.)"
    for word in ("Dr", "Mr", "Mrs", "Ms", "Prof", "St", "No", "vs", "etc", "e.g", "i.e", "approx")
)
_BREAKS = (
    re.compile(r"\n(?=#{1,6} )"),
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(
        rf"[.!?…]{_NOT_AFTER_ABBREVIATION}(?<!\b[A-Z]\.)[\"'”’)\]]*\s+(?=[^\sa-z])|[。！？]+"
    ),
    re.compile(r"\s+"),
)
_SENTENCE_BREAKS = _BREAKS[2:4]


class Offsets(Protocol):
    """What chunking needs of a tokenizer."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The character span of each token of text."""
        ...


@dataclass(frozen=True)
class Chunk:
    """A passage of a document. `start` and `end` are character offsets into the joined pages."""

    text: str
    start: int
    end: int
    page: int | None


@dataclass(frozen=True)
class Sentence(Chunk):
    """A sentence or a line of a chunk: what is retrieved, and one row of the model.

    `context` is what its chunk opens with, since "She drinks lapsang souchong" alone says little;
    the opening sentence itself has none.
    """

    context: str


def embedded_text(text: str, context: str) -> str:
    """What the embedder sees of a sentence."""
    return f"{text} ({context})" if context else text


def sentences(pages: Sequence[str], tokenizer: Offsets, max_tokens: int = 96) -> list[Sentence]:
    """The sentences and lines of every chunk, under the same promises as `chunk`.

    A small model quotes a short row exactly and a long one badly, while the embedder tells which
    sentence answers: so the retrieval chooses the sentence, and the mixture weighs the choice.
    """
    return list(each_sentence(pages, tokenizer, max_tokens))


def each_sentence(
    pages: Sequence[str], tokenizer: Offsets, max_tokens: int = 96, *, alone: bool = False
) -> Iterator[Sentence]:
    """`sentences` one by one. `alone`: they are rows of a table, and none is another's context."""
    for whole in each_chunk(pages, tokenizer, max_tokens):
        ends = {match.end() for each in _SENTENCE_BREAKS for match in each.finditer(whole.text)}
        opening = ""
        start = 0
        for end in [*sorted(ends), len(whole.text)]:
            text = whole.text[start:end].strip()
            if text:
                at = whole.start + whole.text.index(text, start)
                yield Sentence(text, at, at + len(text), whole.page, opening)
                opening = opening or ("" if alone else text)
            start = end


def chunk(pages: Sequence[str], tokenizer: Offsets, max_tokens: int = 96) -> list[Chunk]:
    """Cut pages into chunks of at most `max_tokens` tokens, none of which crosses a page.

    With `joined = "\\f".join(pages)` each chunk has `text == joined[start:end]`, begins and ends
    with a visible character, and carries its page's number from 1. Together the chunks hold every
    visible character once, in order.
    """
    return list(each_chunk(pages, tokenizer, max_tokens))


def each_chunk(pages: Sequence[str], tokenizer: Offsets, max_tokens: int = 96) -> Iterator[Chunk]:
    """`chunk` one by one."""
    if max_tokens < 8:
        raise ValueError(f"max_tokens is {max_tokens}; a chunk needs at least 8")
    base = 0
    for number, page in enumerate(pages, start=1):
        position = _skip_space(page, 0)
        while position < len(page):
            end = _chunk_end(page, position, tokenizer, max_tokens)
            text = page[position:end].rstrip()
            yield Chunk(text, base + position, base + position + len(text), number)
            position = _skip_space(page, end)
        base += len(page) + len(PAGE_BREAK)


def _skip_space(text: str, position: int) -> int:
    visible = _VISIBLE.search(text, position)
    return visible.start() if visible else len(text)


def _chunk_end(page: str, start: int, tokenizer: Offsets, max_tokens: int) -> int:
    """Where the chunk that begins at `start` ends: the strongest break within the token budget."""
    window = page[start : start + max_tokens * _WINDOW_CHARACTERS_PER_TOKEN]
    spans = tokenizer.offsets(window)
    budget = max_tokens
    while True:
        fits = len(spans) <= budget
        reach = len(window) if fits else max(1, spans[budget - 1][1])
        at_page_end = start + reach == len(page)
        end = reach if at_page_end else _strongest_break(window, reach)
        # A text cut elsewhere may have more tokens than it had in its window.
        excess = len(tokenizer.offsets(window[:end].rstrip())) - max_tokens
        if excess <= 0 or reach == 1:
            return start + end
        budget = max(1, min(budget, len(spans)) - excess)


def _strongest_break(window: str, reach: int) -> int:
    least = reach * _MINIMUM_FILL
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(window)]
        # White space at the end is dropped, so it may lie beyond reach.
        ends = [end for end in ends if least <= len(window[:end].rstrip()) <= reach]
        if ends:
            return ends[-1]
    return reach  # one word longer than the rest of the budget: cut between two tokens
