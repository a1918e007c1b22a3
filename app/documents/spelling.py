"""Questions with misspelt words, as the person's documents spell them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sqlalchemy import column, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.owners import acting, everyone
from app.storage.tables import Chunk, Document
from dragon.retrieval.spelling import corrected, doubtful, likeliest, slips

_TERMS = table("chunks_terms", column("term"), column("cnt"))
_FTS = table("chunks_fts", column("rowid"))
_VIEW = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunks_terms USING fts5vocab(main, chunks_fts, row)"
)


async def respelled(session: AsyncSession, question: str) -> str:
    """A question with each word that is none and that no document has as one of theirs like it.

    Of several like it, the one that documents have most often.
    """
    if not (words := doubtful(question)):
        return question
    with everyone():
        await session.execute(text(_VIEW))
    hides = await _hides_some(session)
    there = await _counts(session, words, hides=hides)
    near = {
        word: likeliest(found)
        for word in words
        if word not in there and (found := await _counts(session, slips(word), hides=hides))
    }
    return await asyncio.to_thread(corrected, question, near) if near else question


async def _counts(session: AsyncSession, words: Collection[str], *, hides: bool) -> dict[str, int]:
    """How often documents have each of the words that they have.

    Where some may not be read, only of words that one of the others has.
    """
    found = select(_TERMS.c.term, _TERMS.c.cnt).where(_TERMS.c.term.in_(words))
    with everyone():  # the index is of all documents
        counts = {row.term: row.cnt for row in await session.execute(found)}
    if not hides:
        return counts
    return {term: count for term, count in counts.items() if await _reads(session, term)}


async def _hides_some(session: AsyncSession) -> bool:
    """Whether there are documents that whoever acts may not read."""
    owner = acting()
    others = select(Document.id).where((Document.owner < owner) | (Document.owner > owner))
    with everyone():
        return await session.scalar(others.where(~Document.shared).limit(1)) is not None


async def _reads(session: AsyncSession, term: str) -> bool:
    """Whether a document has the word that whoever acts may read."""
    having = select(Chunk.id).join(_FTS, _FTS.c.rowid == Chunk.id)
    having = having.where(text("chunks_fts MATCH :term")).limit(1)
    return await session.scalar(having, {"term": f'"{term}"'}) is not None
