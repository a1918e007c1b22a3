"""Removing documents with everything made from them, on disk too."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import String, delete, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.citations import without
from app.documents.index import DocumentIndex
from app.storage import database
from app.storage.tables import Chunk, Document, Message


class Forgetful(Protocol):
    """What keeps something of documents that goes with them."""

    async def forget(self, document: str) -> None:
        """Remove all that is kept of a document."""


@dataclass(frozen=True)
class Erasure:
    """In two steps: rows within the caller's transaction, then the rest, which has no use without.

    A kill in between leaves files without rows, which the next start clears.
    """

    files: Path
    index: DocumentIndex
    kv: Forgetful
    sessions: async_sessionmaker[AsyncSession]

    async def rows(self, session: AsyncSession, documents: Sequence[str]) -> dict[str, list[int]]:
        """Delete the rows of documents; returns their chunks' ids, which `rest` wants."""
        chunks = {}
        for document in documents:
            of_document = Chunk.document_id == document
            chunks[document] = list(await session.scalars(select(Chunk.id).where(of_document)))
            await session.execute(delete(Document).where(Document.id == document))
            await _blank_passages(session, document)
        return chunks

    async def rest(self, chunks: dict[str, list[int]]) -> None:
        """Delete vectors, KV and files, and clear the database's own leftovers."""
        for document, ids in chunks.items():
            await self.index.remove(document, ids)
            await self.kv.forget(document)
            if (directory := self.files / document).exists():
                await asyncio.to_thread(_remove, directory)
        if chunks:
            await database.forget_deleted(self.sessions)


def _remove(directory: Path) -> None:
    """Under another name first: whoever is about to write in it finds it no more."""
    gone = directory.rename(directory.with_name(f"{directory.name}.deleted"))
    shutil.rmtree(gone)


async def _blank_passages(session: AsyncSession, document: str) -> None:
    """Take a document out of the stored answers, whose own text stays.

    After the first write of a transaction: an answer saved in between would be overwritten.
    """
    named = type_coerce(Message.record, String).contains(document, autoescape=True)
    for identity, record in await session.execute(select(Message.id, Message.record).where(named)):
        values = {"record": without(record, {document})}
        await session.execute(update(Message).where(Message.id == identity).values(values))
