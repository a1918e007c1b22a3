"""Corrects misspelt words in questions: by the user's documents, or what can be asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sqlalchemy import column, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.tables.wording import OPERATION_WORDS
from app.owners import acting, everyone
from app.storage.tables import Chunk, Document
from dragon.retrieval.lexical import corrected, doubtful, likeliest, slips

_TERMS = table("chunks_terms", column("term"), column("cnt"))
_ASKED = OPERATION_WORDS | {"summarise", "summarize", "summary", "overview"}
FTS = table("chunks_fts", column("rowid"))
_VIEW = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunks_terms USING fts5vocab(main, chunks_fts, row)"
)


async def respelled(sessions: async_sessionmaker[AsyncSession], question: str) -> str:
    """Replace each word of a question that is in no document by the most frequent one like it.

    If no document has one, by a word like it that asks for a summary or for a table's figures.
    """
    if not (words := doubtful(question)):
        return question
    async with sessions() as session:
        owner = acting()
        others = select(Document.id).where((Document.owner < owner) | (Document.owner > owner))
        with everyone():
            await session.execute(text(_VIEW))
            hides = await session.scalar(others.where(~Document.shared).limit(1)) is not None
        there = await _counts(session, words, hides=hides)
        near = dict[str, str]()
        for word in words:
            if word not in there:
                alike = slips(word)
                found = await _counts(session, alike, hides=hides)
                found = found or dict.fromkeys(alike & _ASKED, 1)
                if found:
                    near[word] = likeliest(found)
    return await asyncio.to_thread(corrected, question, near) if near else question


async def _counts(session: AsyncSession, words: Collection[str], *, hides: bool) -> dict[str, int]:
    """How often documents have words; if some are hidden, only words that others have, too."""
    found = select(_TERMS.c.term, _TERMS.c.cnt).where(_TERMS.c.term.in_(words))
    with everyone():  # the index covers all documents
        counts = {row.term: row.cnt for row in await session.execute(found)}
    if not hides:
        return counts
    having = select(Chunk.id).join(FTS, FTS.c.rowid == Chunk.id)
    having = having.where(text("chunks_fts MATCH :term")).limit(1)
    return {
        term: count
        for term, count in counts.items()
        if await session.scalar(having, {"term": f'"{term}"'}) is not None
    }
