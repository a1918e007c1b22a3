"""Hits of a search in the user's documents, its scope, and the text around a hit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Select

from app.documents.readers.sniff import FileKind
from app.owners import DEVICE
from app.storage.tables import Chunk, Document
from dragon.retrieval.chunking import PAGE_BREAK, each_sentence
from dragon.retrieval.find import Length, around, heading
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import content_words, stem, words
from dragon.retrieval.relevance import Hit

T = TypeVar("T")


@dataclass(frozen=True)
class DocumentHit(Hit):
    """A chunk of an uploaded document; `title` is the file's name.

    `start` and `end` are character offsets in the document's text; `page` counts from 1.
    `confidence`, in percent, is that of text recognised in a picture. A table's answer has its
    `query` in SQL, a passage the texts of its `sentences`. A hit that answers has the paragraph
    `around` it, and how many `others` it was preferred to that say otherwise.
    """

    page: int | None
    start: int
    end: int
    kind: str = ""
    query: str | None = None
    sentences: tuple[str, ...] = ()
    confidence: int | None = None
    around: str = ""
    others: int = 0
    owner: str = DEVICE

    @property
    def tabular(self) -> bool:
        """Whether it is a row of a table file, which stands alone."""
        return bool(self.kind) and FileKind(self.kind).tabular


@dataclass(frozen=True)
class Follows:
    """The hit that the last reply was written from; `asked` is the question if it leans on that."""

    hit: DocumentHit
    asked: str | None


@dataclass(frozen=True)
class Scope:
    """The documents and collections to search, None for all, and what a question `follows`.

    `turns` are the chat's questions with their replies; the one that is asked has none yet.
    """

    documents: Sequence[str] | None = None
    collections: Sequence[str] | None = None
    follows: Follows | None = None
    turns: Sequence[tuple[str, str]] = ()

    def within(self, statement: Select[T]) -> Select[T]:
        """The statement restricted to the documents in scope."""
        if self.documents is not None:
            statement = statement.where(Document.id.in_(self.documents))
        if self.collections is not None:
            statement = statement.where(Document.collection.in_(self.collections))
        return statement


EVERYTHING = Scope()


def hit_of(chunk: Chunk, filename: str, kind: str, vector: Vectors | None) -> DocumentHit:
    """A chunk as a hit that is not scored yet."""
    return DocumentHit(
        id=chunk.id,
        document=chunk.document_id,
        title=filename,
        text=chunk.text,
        score=0.0,
        relevance=0.0,
        context=chunk.context,
        vector=vector,
        kind=kind,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
        confidence=chunk.confidence,
        owner=chunk.owner,
    )


APART = re.compile(r"\n\s*\n|\f")
"""Separates two paragraphs."""

_MARK = r"[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+"  # of an entry
_CONTINUED = r"\n[ \t]{2,}\S[^\n]*"
# A line indented by two spaces or more continues an entry, or is one without a mark.
_LIST = re.compile(rf"(?:\n{{1,2}}{_MARK}[^\n]+|{_CONTINUED})+")
# Entries that follow one another without an empty line, each on a line and indented ones after it.
_ENTRIES = re.compile(rf"^{_MARK}\S[^\n]*(?:\n{_MARK}\S[^\n]*|{_CONTINUED})*", re.MULTILINE)
_REST = re.compile(r"[ \t]+\S[^\n]*")  # of a line
_ENTRY = re.compile(r"(?:\A|\n)[ \t]*(?:[-*•–][ \t]+)?\Z")  # before an entry
_LABEL = re.compile(r"[^\W_][^:.!?\n]{0,39}:[ \t]")
_UNDER = re.compile(r"\n{1,2}[^\n]*[.!?](?=\s|\Z)")  # a heading
_HEADING = 8  # words, at most
_FEW = 3  # words
_TITLE = 100  # characters, at most
_FIELD = re.compile(r"[^\W\d_][^\d:.!?]{0,29}:[ \t]+\S.{0,99}")
_ADDRESSED = re.compile(r"(?:[^\s,]+ ){1,4}[^\s,]+,")
HEAD, _HEAD_LINES = 2000, 16  # characters and lines that may be before the first sentence
_REACH = 300  # characters on each side of a passage, at most
_LONGEST_LIST = 800  # characters


def text_of(files: Path, document: str, most: int = -1) -> str:
    """So much of a document's text under `files`; "" while it is being read, or once deleted."""
    try:
        with (files / document / "text").open(encoding="utf-8") as file:
            return file.read(most)
    except FileNotFoundError:
        return ""


def subject(beginning: str) -> str:
    """A text's first line, unless that is a sentence, and what stands before its first sentence.

    That is fields ("Patient: Ada Orr") and whom it addresses ("Dear Ada,"). A text with the same
    fields again, or with fields alone, is a list of records, none of which is about the others.
    """

    def is_prose(line: str) -> bool:
        return len(line) > _TITLE or line.endswith((".", "!", "?", ";"))

    first, *lines = [line.strip() for line in beginning.lstrip().split("\n")][:_HEAD_LINES]
    if is_prose(first):
        return ""
    fields = dict[str, str]()
    for line in lines:
        if is_prose(line):
            return "\n".join([first, *fields.values()])
        if _FIELD.match(line) or _ADDRESSED.fullmatch(line):
            name = line.partition(":")[0]
            if name in fields:  # another record's
                break
            fields[name] = line
    return first


def whole_end(text: str, start: int, end: int) -> int:
    """The offset where a sentence from `start` to `end` makes sense by itself.

    Usually that is `end`. A sentence that ends with a colon includes the list after it, one that
    begins a labelled entry ("F12: motor too hot.") the rest of its line, unless that is long, and
    one of up to three words ("Pressure.") the next sentence of its line. A heading includes the
    first sentence under it.
    """
    if text[start:end].endswith(":"):
        found = _LIST.match(text, end)
        return found.end() if found and found.end() - end <= _REACH else end
    count, begins = len(words(text[start:end])), _ENTRY.search(text, max(0, start - _REACH), start)
    heads = begins and count <= _HEADING and text[end - 1].isalnum()
    if heads and (found := _UNDER.match(text, end)):
        return end + next(each_sentence([found.group()])).end
    if (rest := _REST.match(text, end)) is None:
        return end
    if begins and _LABEL.match(text, start, end):
        return rest.end() if rest.end() - start <= _REACH else end
    if count <= _FEW:
        return end + next(each_sentence([rest.group()])).end
    return end


def paragraph_at(text: str, start: int, end: int) -> str:
    """The paragraph around a passage from `start` to `end`, shortened if it is long."""
    first, last = max(0, start - _REACH), min(len(text), end + _REACH)
    before, behind = text[first:start], text[end:last]
    breaks = list(APART.finditer(before))
    if breaks:
        before = before[breaks[-1].end() :]
    elif first:
        before = f"… {before.partition(' ')[2]}"
    if found := APART.search(behind):
        behind = behind[: found.start()]
    elif last < len(text):
        behind = f"{behind.rpartition(' ')[0]} …"
    return f"{before}{text[start:end]}{behind}".strip()


def cut_passages(
    hits: Sequence[DocumentHit],
    near: dict[int, Sequence[DocumentHit]],
    k: int,
    length: Length,
    texts: Mapping[str, str],
) -> list[DocumentHit]:
    """At most k passages around the hits, cut from the sentences `near` each by its id.

    `texts` are those of their documents.
    """
    passages = []
    for hit, sentences in around(hits, near, k, length):
        first, last = sentences[0], sentences[-1]
        said = tuple(sentence.text for sentence in sentences)
        # While it is being read, a document has sentences, but no text yet.
        text = texts[hit.document][first.start : last.end].replace(PAGE_BREAK, "\n")
        if text := text or " ".join(said):
            found = replace(hit, text=text, context=heading(first, near[hit.id]), sentences=said)
            found = replace(found, page=first.page, confidence=first.confidence)
            passages.append(replace(found, start=first.start, end=last.end))
    return passages


def list_around(text: str, start: int) -> tuple[int, int] | None:
    """The offsets of the list with an entry at `start`; None if there is none, or it is long."""
    reach = 2 * _LONGEST_LIST  # so that a list cut off there is too long
    first = text.rfind("\n", 0, max(0, start - reach)) + 1
    for found in _ENTRIES.finditer(text, first, start + reach):
        if found.start() <= start < found.end():
            return found.span() if found.end() - found.start() <= _LONGEST_LIST else None
    return None


def _asks_for_all(question: str, hit: DocumentHit) -> bool:
    """Whether a question names the heading that an entry stands under, and nothing of the entry.

    "What ingredients do I need for the cake?" asks for all that stands under "Ingredients".
    """
    asked = {stem(word) for word in content_words(question)}
    over = {stem(word) for word in words(hit.context)}
    own = {stem(word) for word in words(hit.text)} - {stem(word) for word in words(hit.about)}
    return bool(asked & over) and not asked & (own - over)


def in_paragraphs(question: str, hits: Sequence[DocumentHit], files: Path) -> list[DocumentHit]:
    """Sentences with the paragraphs around them; a row of a table stands alone.

    A sentence that means nothing without the text after it includes that, and an entry the whole
    list if the question asks for all of it. One that is within a better one is left out.
    """
    prose = {hit.document for hit in hits if not hit.tabular}
    texts = {each: text_of(files, each) for each in prose}
    found = list[DocumentHit]()
    for hit in hits:
        if not (text := texts.get(hit.document, "")):
            found.append(hit)
            continue
        beside = [(other.start, other.end) for other in found if other.document == hit.document]
        whole = list_around(text, hit.start) if _asks_for_all(question, hit) else None
        start, end = whole or (hit.start, whole_end(text, hit.start, hit.end))
        if _meets(start, end, beside):
            start, end = hit.start, hit.end
        if _meets(start, end, beside):
            continue
        said = hit.text if (start, end) == (hit.start, hit.end) else text[start:end]
        hit = replace(hit, text=said, start=start, end=end)
        found.append(replace(hit, around=paragraph_at(text, start, end)))
    return found


def _meets(start: int, end: int, others: Sequence[tuple[int, int]]) -> bool:
    return any(start < last and first < end for first, last in others)


def paragraph_of(hit: DocumentHit, near: Sequence[DocumentHit], text: str) -> Sequence[DocumentHit]:
    """The sentences around a hit that are in its paragraph; for a table, its row alone."""
    if hit.tabular:
        return [chunk for chunk in near if chunk.id == hit.id]
    paragraph: list[DocumentHit] = []
    for chunk in near:
        if paragraph and APART.search(text, paragraph[-1].end, chunk.start):
            if paragraph[-1].id >= hit.id:
                break
            paragraph = []
        paragraph.append(chunk)
    return paragraph
