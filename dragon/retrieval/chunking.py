"""Splits text into chunks that fit the language model's document slot, and chunks into sentences.

Greedy packing: each chunk takes as much text as its limit allows and ends at the strongest break
that leaves it reasonably full: a heading, a paragraph, a line, a sentence, a word. The limit is in
bytes of UTF-8: no vocabulary has a token of less than a byte, and English prose has three or four
bytes per token. So the chunks do not depend on the model, and take a hundredth of a tokenizer's
time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

PAGE_BREAK = "\f"

MOST_BYTES = 320  # the most bytes of a chunk, in UTF-8: about a hundred tokens of English
_LEAST_BYTES = 8
_LOOK_AHEAD = 64  # characters in which the white space of a last break may lie

# A break must leave the chunk at least this full; otherwise a heading or a one-line paragraph would
# become a chunk of its own, cut off from what it introduces.
_MINIMUM_FILL = 0.4

_VISIBLE = re.compile(r"\S")
_ABBREVIATIONS = (
    "Dr Mr Mrs Ms Prof St No vs etc e.g i.e approx Abs Art Fr Hr Nr Tel bzw ca inkl Sr Sra Dra núm"
)
_NOT_AFTER_ABBREVIATION = "(?<![Ss]tr\\.)" + "".join(
    rf"(?<!\b{word}\.)" for word in _ABBREVIATIONS.split()
)
_MONTHS = "Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez"  # of "am 9. Mai"
_BREAKS = (
    re.compile(r"\n(?=#{1,6} )"),
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(
        rf"[.!?…]{_NOT_AFTER_ABBREVIATION}(?<!(?<!['’])\b[^\W\d_]\.)"
        rf"(?!(?<=\d\.)\s+(?:{_MONTHS}))[\"'”’)\]]*\s+(?=[^\sa-z])|[。！？]+"
    ),
    re.compile(r"\s+"),
)
_LINES, _SENTENCES = _BREAKS[2:4]
_HEADING = re.compile(r"#{1,6} ")
# In a text without markup, a line of at most this many characters heads what follows: in capitals,
# or with a number or apart from what precedes it, if it has no digit and ends no sentence.
_LONGEST_HEADING, _LEVEL_OF_CAPITALS = 60, 2
_CAPITALS = re.compile(r".*[^\W\d_]{3}.*[^.,;:?!|]")
_NUMBER = re.compile(r"\d{1,2}(?:[.)]|(?:\.\d{1,2})+[.)]?)\s+")
_TITLE = re.compile(r"[^\W\d_a-z][^\d.:;|?!…]*[^\W\d_]:?")
_PROSE = re.compile(r"[\"'“„«(]?[^\W_a-z].*[.!?…][\"'”“’»)]*", re.DOTALL)


@dataclass(frozen=True)
class TextChunk:
    """A passage of a document. `start` and `end` are character offsets into the joined pages."""

    text: str
    start: int
    end: int
    page: int | None


@dataclass(frozen=True)
class ChunkSentence(TextChunk):
    """A sentence or a line of a chunk: the unit of retrieval, and one row of the model.

    `context` is what it stands under, since "She drinks lapsang souchong" says little alone: the
    heading, then the first sentence of its line or, for that one, of its chunk.
    """

    context: str


def embedded_text(text: str, context: str) -> str:
    """The text of a sentence as it is embedded and reranked."""
    return f"{text} ({context})" if context else text


def sentences(pages: Sequence[str], most: int = MOST_BYTES) -> list[ChunkSentence]:
    """The sentences and lines of every chunk, with the guarantees of `chunks`."""
    return list(each_sentence(pages, most))


def each_sentence(
    pages: Sequence[str], most: int = MOST_BYTES, *, alone: bool = False
) -> Iterator[ChunkSentence]:
    """`sentences`, lazily. `alone`: lines are rows of a table, and none is another's context.

    A heading is yielded if nothing stands under it, or if it has no markup and may be none. An
    item's number belongs to no sentence.
    """
    heading: ChunkSentence | None = None
    bare = False  # whether nothing stands under the heading yet
    opening, opened, end = "", -1, -2
    for whole, line, following in _lines(pages, most):
        if whole.start != opened:
            opening, opened = "", whole.start
        apart, end = line.start - end > 1, line.end
        marked = _heads(line.text)
        if marked and heading is not None and bare and _level(heading) >= _level(line):
            yield heading
        if marked or (not alone and _introduces(line.text, following, apart=apart)):
            heading, bare, opening = line, marked, ""
            if not marked:
                yield line
            continue
        bare, first = False, ""
        number = None if alone else _NUMBER.match(line.text)
        begin = line.start - whole.start
        start = begin + (number.end() if number else 0)
        for each in _pieces(whole, _SENTENCES, start, begin + len(line.text)):
            under = "" if alone else first or opening
            title = "" if heading is None else heading.text.lstrip("#").strip()
            yield replace(each, context=": ".join(filter(None, (title, under))))
            first = first or each.text
        opening = opening or first
    if heading is not None and bare:
        yield heading


def _lines(pages: Sequence[str], most: int) -> Iterator[tuple[TextChunk, ChunkSentence, str]]:
    before: tuple[TextChunk, ChunkSentence] | None = None
    for whole in chunks(pages, most):
        for line in _pieces(whole, _LINES, 0, len(whole.text)):
            if before:
                yield *before, line.text
            before = whole, line
    if before:
        yield *before, ""


def _pieces(
    whole: TextChunk, breaks: re.Pattern[str], start: int, stop: int
) -> Iterator[ChunkSentence]:
    """The pieces between breaks in a part of a chunk, stripped of white space."""
    ends = [match.end() for match in breaks.finditer(whole.text, start, stop)]
    for end in [*ends, stop]:
        if text := whole.text[start:end].strip():
            at = whole.start + whole.text.index(text, start)
            yield ChunkSentence(text, at, at + len(text), whole.page, "")
        start = end


def _heads(line: str) -> bool:
    if _HEADING.match(line):
        return True
    capitals = len(line) <= _LONGEST_HEADING and line.upper() == line != line.lower()
    return capitals and _CAPITALS.fullmatch(line) is not None


def _introduces(line: str, following: str, *, apart: bool) -> bool:
    """Whether a line without markup heads the prose after it; `apart` from what precedes it."""
    number = _NUMBER.match(line)
    return (
        (apart or number is not None)
        and len(line) <= min(_LONGEST_HEADING, len(following))
        and _TITLE.fullmatch(line, number.end() if number else 0) is not None
        and _PROSE.fullmatch(following) is not None
        and not _NUMBER.match(following)
    )


def _level(heading: ChunkSentence) -> int:
    return len(heading.text) - len(heading.text.lstrip("#")) or _LEVEL_OF_CAPITALS


def chunks(pages: Sequence[str], most: int = MOST_BYTES) -> Iterator[TextChunk]:
    """Split pages into chunks of at most `most` bytes, none of which crosses a page.

    With `joined = "\\f".join(pages)` each chunk has `text == joined[start:end]`, begins and ends
    with a visible character, and has its page's number, counted from 1. Together the chunks contain
    every visible character once, in order. Raises ValueError if `most` is under 8.
    """
    if most < _LEAST_BYTES:
        raise ValueError(f"a chunk needs at least {_LEAST_BYTES} bytes, not {most}")
    base = 0
    for number, page in enumerate(pages, start=1):
        position = _skip_space(page, 0)
        while position < len(page):
            end = _chunk_end(page, position, most)
            text = page[position:end].rstrip()
            yield TextChunk(text, base + position, base + position + len(text), number)
            position = _skip_space(page, end)
        base += len(page) + len(PAGE_BREAK)


def _skip_space(text: str, position: int) -> int:
    visible = _VISIBLE.search(text, position)
    return visible.start() if visible else len(text)


def _chunk_end(page: str, start: int, most: int) -> int:
    """The end of the chunk that begins at `start`: the strongest break within the limit."""
    window = page[start : start + most + _LOOK_AHEAD]
    reach = len(window[:most].encode(errors="replace")[:most].decode(errors="ignore"))
    if start + reach == len(page):
        return start + reach
    least = reach * _MINIMUM_FILL
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(window)]
        # Trailing white space is stripped, so it may lie beyond reach.
        ends = [end for end in ends if least <= len(window[:end].rstrip()) <= reach]
        if ends:
            return start + ends[-1]
    return start + reach  # the word is longer than the limit
