"""Summaries of documents, and the text under a heading or behind a label that a question quotes.

A section's first sentence mostly says what it is about; after it come those whose embeddings are
closest to the mean of the section, in turns with the other sections until there is no more room.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.hits import APART, DocumentHit, Follows, Scope, hit_of, text_of
from app.documents.index import DocumentIndex
from app.storage.tables import Chunk, Document, Status, upload_order
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import content_words, stem, words
from dragon.retrieval.query_parsing import plain
from dragon.retrieval.relevance import HIGHEST, WORDS

_ASKS = re.compile(
    r"\A\W*(?:(?:can|could|would) you )?(?:please |pls )?(?:"
    r"summari[sz]e|sum up|tl;?dr"
    r"|(?:(?:give|show|write|make)(?: me)?|i(?:'d like| want| need)|what(?: is|'s| are))? ?"
    r"(?:an?|the)? ?(?:brief|short|quick|rough)? ?"
    r"(?:summary|overview|gist|(?:main|key|most important) (?:points?|facts?|things?|ideas?))"
    r"(?= (?:of|for|on|about|from|to)\b|\W*\Z)"
    r")\b(?P<subject>.*)"
    r"|\A\W*what(?: is|'s| are|'re)(?P<about>.*)\babout\W*\Z"
    r"|\A\W*what (?:should|must|do) (?:i|we) (?:need to )?know(?: about (?P<of>.*))?\W*\Z"
    # As the page suggests it in its other languages.
    r"|\A\W*fass(?:en sie|e)? (?P<de>.*)\bzusammen\W*\Z"
    r"|\A\W*(?:resuma|resume(?= (?:el|la|este|esta|mi)\b)) (?P<es>.*)",
    re.IGNORECASE,
)
# "... for my mother, in a few lines": how it is to be told.
_HOW = re.compile(
    r"(?<=\w)(?:,| (?:for (?:me|us|my|our)|in (?:a|one|two|three|short|brief|few|simple|plain))\b)",
    re.IGNORECASE,
)
# Words that name no document.
_ANY = {
    "document", "documents", "doc", "file", "files", "text", "note", "notes", "page", "upload",
    "uploaded", "latest", "last", "new", "content", "contents",
    "das", "die", "den", "diese", "dieses", "diesen", "dokument", "datei",
    "el", "la", "este", "esta", "documento", "archivo",
}  # fmt: skip
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_NAMES = 1000  # of the newest documents, one of which is meant
_NEAREST = 8  # passages that tell which document is meant
_SENTENCES = 2000  # of a document, at most
_ITEM = re.compile(r"\A[-*•] +")
_LEAST = 3  # sections
_FEWEST, _MOST = 300, 900  # characters of a summary: half of the text's, between these
_WORDS = 5  # of a sentence, at least


def subject(question: str) -> frozenset[str] | None:
    """The stems that say what to summarise, none for any document; None if no summary is asked."""
    found = _ASKS.match(plain(question))
    if found is None:
        return None
    named = _HOW.split(next(filter(None, found.groups()), ""))[0]
    return frozenset(stem(word) for word in content_words(named) if word not in _ANY)


def named(subject: frozenset[str], name: str) -> int:
    """The number of these stems in a document's name."""
    return len(subject & {stem(word) for word in words(name)})


def extract(text: str, sentences: Sequence[Chunk], vectors: Mapping[int, Vectors]) -> list[Chunk]:
    """The sentences that sum up a text, in order, from its longest sections.

    `vectors` are their embeddings, float32 [dim]; a sentence without one is left out.
    """
    long = [each for each in sentences if len(text[each.start : each.end].split()) >= _WORDS]
    sections = _sections(text, [each for each in long if each.id in vectors])
    sections.sort(key=lambda section: sum(each.start - each.end for each in section))
    room = min(max(_FEWEST, len(text) // 2), _MOST)
    chosen: list[Chunk] = []
    ordered = []
    for first, *others in sections:
        mean = np.mean([vectors[each.id] for each in (first, *others)], axis=0)
        others.sort(key=lambda each: -float(vectors[each.id] @ mean))
        ordered.append([first, *others])
    for each in (each for turn in zip_longest(*ordered) for each in turn):
        if each is not None and each.end - each.start <= room:
            chosen.append(each)
            room -= each.end - each.start
    return sorted(chosen, key=lambda each: each.start)


def _sections(text: str, places: Sequence[Chunk]) -> list[Sequence[Chunk]]:
    """The sentences under each heading, or else in each paragraph, or else in each third."""
    for border in (_HEADING, APART):
        starts = [found.start() for found in border.finditer(text)]
        found: dict[int, list[Chunk]] = {}
        for each in places:
            found.setdefault(bisect(starts, each.start), []).append(each)
        if len(found) >= _LEAST:
            return list(found.values())
    size = -(-len(places) // _LEAST)
    return [places[at : at + size] for at in range(0, len(places), size)] if places else []


async def summary(
    sessions: async_sessionmaker[AsyncSession],
    index: DocumentIndex,
    files: Path,
    query: str,
    best: Sequence[DocumentHit],
    scope: Scope,
) -> list[DocumentHit] | None:
    """One hit: the summary of the processed document meant, if any; None if none is asked for.

    The texts of documents are under `files`; `best` are the nearest passages.
    """
    if (asked := subject(query)) is None:
        return None
    async with sessions() as session:
        processed = select(Document).where(Document.status == Status.PROCESSED)
        newest = processed.order_by(upload_order.desc()).limit(_NAMES)
        documents = list(await session.scalars(scope.within(newest)))
        meant = _meant(query, asked, documents, best, scope.follows)
        if meant is None:
            return []
        chunks = select(Chunk).where(Chunk.document_id == meant.id).order_by(Chunk.id)
        sentences = list(await session.scalars(chunks.limit(_SENTENCES)))
    vectors = index.vectors([each.id for each in sentences])
    text = await asyncio.to_thread(text_of, files, meant.id)
    chosen = await asyncio.to_thread(extract, text, sentences, vectors) if text else []
    if not chosen:
        return []
    hit = hit_of(chosen[0], meant.filename, meant.kind, vectors[chosen[0].id])
    said = " ".join(_ITEM.sub("", text[each.start : each.end]) for each in chosen)
    return [_whole(hit, said, chosen[-1].end)]


def _meant(
    query: str,
    subject: frozenset[str],
    documents: Sequence[Document],
    best: Sequence[DocumentHit],
    follows: Follows | None,
) -> Document | None:
    """The document to sum up: by name, by title or subject; else the chat's, or the newest."""
    known = {each.id: each for each in documents}
    if not subject:
        asked = set(words(query))  # "the will" says nothing but the name of will.txt
        names = ((each, set(words(Path(each.filename).stem)) - _ANY) for each in documents)
        called = (each for each, name in names if name and name <= asked)
        before = [] if follows is None else [known.get(follows.hit.document)]
        return next(filter(None, [*called, *before, *documents]), None)
    likeliest = max(documents, key=lambda each: named(subject, each.filename), default=None)
    if likeliest is not None and named(subject, likeliest.filename):
        return likeliest
    for hit in best:
        if hit.document in known and 2 * named(subject, hit.about) >= len(subject):
            return known[hit.document]
    # Or that of most of the nearest passages, if one of them has any of these stems.
    nearest = best[:_NEAREST]
    for document, count in Counter(hit.document for hit in nearest).most_common(1):
        texts = (f"{hit.text} {hit.context}" for hit in nearest if hit.document == document)
        if 2 * count > len(nearest) and any(named(subject, text) for text in texts):
            return known.get(document)
    return None


# Sections. The page offers questions that quote a title for a new document, in its languages.


_QUOTES = re.compile(
    r"\A\W*(?:what do my documents say about|was steht unter|qué dicen mis documentos sobre) "
    r"[\"“„«](?P<title>.+)[\"”“»]\W*\Z",
    re.IGNORECASE,
)
_MARKS = re.compile(r"\A[\W\d]+|\W+\Z")  # as in "## § 3 Rent"
_LABEL_END = re.compile(r"[:.](?=\s|\Z)")
_WITH_TITLE = 1000  # sentences, at most


def title_asked(question: str) -> str:
    """The heading or label that a question asks for by quoting it; "" if it does not."""
    found = _QUOTES.match(question)
    return _MARKS.sub("", found["title"]) if found else ""


async def section(
    sessions: async_sessionmaker[AsyncSession], files: Path, query: str, scope: Scope
) -> list[DocumentHit]:
    """One hit: the text under the title that a question quotes, in the newest document with it.

    No hit if no title is quoted, or no processed document in scope has it. The texts of documents
    are under `files`.
    """
    if not (title := title_asked(query)):
        return []
    has = or_(*(each.contains(title, autoescape=True) for each in (Chunk.context, Chunk.text)))
    sentences = (
        select(Chunk)
        .join(Document, Document.id == Chunk.document_id)
        .where(Document.status == Status.PROCESSED, has)
        .order_by(upload_order.desc(), Chunk.id)
        .limit(_WITH_TITLE)
    )
    with_names = scope.within(sentences).add_columns(Document.filename, Document.kind)
    async with sessions() as session:
        rows = (await session.execute(with_names)).all()
    hits = [hit_of(chunk, filename, kind, None) for chunk, filename, kind in rows]
    for at, hit in enumerate(hits):
        if hit.tabular:
            continue
        if _heading(hit) == title:
            said, end = hit.text, hit.end
            for each in hits[at + 1 :]:  # as many as fit
                longer = f"{said} {each.text}"
                same = each.document == hit.document and _heading(each) == title
                if not same or len(longer) >= _MOST:
                    break
                said, end = longer, each.end
            return [_whole(hit, said, end)]
        if _MARKS.sub("", _LABEL_END.split(hit.text, maxsplit=1)[0]) == title:
            text = await asyncio.to_thread(text_of, files, hit.document)
            line = text[hit.start :].partition("\n")[0][:_MOST]
            return [_whole(hit, line, hit.start + len(line))] if line else []
    return []


def _heading(hit: DocumentHit) -> str:
    return _MARKS.sub("", hit.context.partition(": ")[0])


def _whole(first: DocumentHit, text: str, end: int) -> DocumentHit:
    return replace(first, text=text, end=end, score=1.0 + WORDS, relevance=HIGHEST)
