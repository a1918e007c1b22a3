"""Shared documents: all keys of the device read them, and their owner alone changes them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.erasure import blank_passages
from app.documents.index import DocumentIndex
from app.owners import everyone
from app.storage.owned import require_own
from app.storage.tables import Chunk, Document


@dataclass(frozen=True)
class Sharing:
    """Shares documents; `changing` keeps others from changing their rows meanwhile."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    changing: asyncio.Lock

    async def share(self, document: Document, *, shared: bool) -> Document:
        """Let all others read a document from now on, or nobody else; returns it as it is then.

        What others' answers show of its passages goes where it is shared no more; their text stays.
        Raises `NotYoursError`.
        """
        require_own(document)
        of_document = Chunk.document_id == document.id
        async with self.changing:
            async with self.sessions.begin() as session:
                for table, those in ((Document, Document.id == document.id), (Chunk, of_document)):
                    await session.execute(update(table).where(those).values(shared=shared))
                if not shared:
                    with everyone():
                        await blank_passages(session, document.id, but_of=document.owner)
                chunks = list(await session.scalars(select(Chunk.id).where(of_document)))
                document = await session.get_one(Document, document.id)
            await self.index.place(document, chunks)
            return document
