"""Questions with misspelt words, as the person's documents spell them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sqlalchemy import column, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession

from dragon.retrieval.spelling import corrected, doubtful, likeliest, slips

_TERMS = table("chunks_terms", column("term"), column("cnt"))
_VIEW = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunks_terms USING fts5vocab(main, chunks_fts, row)"
)


async def respelled(session: AsyncSession, question: str) -> str:
    """A question with each word that is none and that no document has as one of theirs like it.

    Of several like it, the one that documents have most often.
    """
    words = doubtful(question)
    await session.execute(text(_VIEW))
    there = await _counts(session, words)
    near = {
        word: likeliest(found)
        for word in words
        if word not in there and (found := await _counts(session, slips(word)))
    }
    return await asyncio.to_thread(corrected, question, near) if near else question


async def _counts(session: AsyncSession, words: Collection[str]) -> dict[str, int]:
    """How often documents have each of the words that they have."""
    found = select(_TERMS.c.term, _TERMS.c.cnt).where(_TERMS.c.term.in_(words))
    return {row.term: row.cnt for row in await session.execute(found)}
