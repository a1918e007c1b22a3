"""Finds the text under a heading, or behind a label, that a question quotes.

The page offers such questions for a new document, in its languages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.hits import DocumentHit, Scope, hit_of, text_of
from app.storage.tables import Chunk, Document, Status, upload_order
from dragon.retrieval.relevance import HIGHEST, WORDS

_ASKS = re.compile(
    r"\A\W*(?:what do my documents say about|was steht unter|qué dicen mis documentos sobre) "
    r"[\"“„«](?P<title>.+)[\"”“»]\W*\Z",
    re.IGNORECASE,
)
_MARKS = re.compile(r"\A[\W\d]+|\W+\Z")  # as in "## § 3 Rent"
_LABEL_END = re.compile(r"[:.](?=\s|\Z)")
_SENTENCES = 1000  # with the words, at most
_CHARACTERS = 900


def title_asked(question: str) -> str:
    """The heading or label that a question asks for by quoting it; "" if it does not."""
    found = _ASKS.match(question)
    return _MARKS.sub("", found["title"]) if found else ""


async def section(
    sessions: async_sessionmaker[AsyncSession], files: Path, title: str, scope: Scope
) -> list[DocumentHit]:
    """One hit: the text under this title in the newest processed document that has it, if any.

    The texts of documents are under `files`.
    """
    columns = (Chunk.context, Chunk.text)
    sentences = (
        select(Chunk)
        .join(Document, Document.id == Chunk.document_id)
        .where(Document.status == Status.PROCESSED)
        .where(or_(*(each.contains(title, autoescape=True) for each in columns)))
        .order_by(upload_order.desc(), Chunk.id)
        .limit(_SENTENCES)
    )
    async with sessions() as session:
        found = list(await session.scalars(scope.within(sentences)))
        theirs = select(Document).where(Document.id.in_({each.document_id for each in found}))
        documents = {each.id: each for each in await session.scalars(theirs)}
    named = ((each, documents[each.document_id]) for each in found)
    hits = [hit_of(each, document.filename, document.kind, None) for each, document in named]
    for at, hit in enumerate(hits):
        if hit.tabular:
            continue
        if _heading(hit) == title:
            under = _fitting(hits[at:])
            said = " ".join(each.text for each in under)
            return [_whole(hit, said, under[-1].end)]
        if _MARKS.sub("", _LABEL_END.split(hit.text, maxsplit=1)[0]) == title:
            text = await asyncio.to_thread(text_of, files, hit.document)
            line = text[hit.start :].partition("\n")[0][:_CHARACTERS]
            return [_whole(hit, line, hit.start + len(line))] if line else []
    return []


def _heading(hit: DocumentHit) -> str:
    return _MARKS.sub("", hit.context.partition(": ")[0])


def _fitting(hits: Sequence[DocumentHit]) -> list[DocumentHit]:
    """The first, and as many after it under its heading as fit."""
    place = hits[0].document, _heading(hits[0])
    kept = [hits[0]]
    for hit in takewhile(lambda each: (each.document, _heading(each)) == place, hits[1:]):
        if sum(len(each.text) + 1 for each in (*kept, hit)) > _CHARACTERS:
            break
        kept.append(hit)
    return kept


def _whole(first: DocumentHit, text: str, end: int) -> DocumentHit:
    return replace(first, text=text, end=end, score=1.0 + WORDS, relevance=HIGHEST)
