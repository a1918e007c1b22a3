"""Deletes documents with everything derived from them, on disk too."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import String, delete, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.documents.citations import without
from app.documents.index import DocumentIndex
from app.storage.purge import Purge
from app.storage.tables import Chunk, Document, LedgerAnswer, Message

_MARK = "deleting"
_GONE = ".deleted"


class Erasable(Protocol):
    """A store of data derived from documents, deleted with them."""

    async def forget(self, document: str) -> None:
        """Remove everything stored for a document."""


@dataclass(frozen=True)
class Erasure:
    """Deletes in two steps: rows within the caller's transaction, then all that derives from them.

    A document's directory is marked before its rows go, so that after a crash in between the next
    start knows it from one whose row was lost.
    """

    files: Path
    index: DocumentIndex
    kv: Erasable
    purge: Purge

    def recover(self, known: set[str], quarantine: Path) -> list[str]:
        """Finish deletions that a crash cut off, and put aside the files of unknown documents.

        Returns what was put aside. Blocks.
        """
        lost = []
        for path in self.files.iterdir():
            if not path.is_dir():
                continue  # a file browser's
            if path.name in known:
                (path / _MARK).unlink(missing_ok=True)  # the deletion was not committed
            elif (path / _MARK).exists() or path.suffix == _GONE:
                shutil.rmtree(path)
            else:
                quarantine.mkdir(mode=0o700, exist_ok=True)
                path.rename(quarantine / f"{path.name}.{secrets.token_hex(4)}")
                lost.append(path.name)
        return lost

    async def rows(self, session: AsyncSession, documents: Sequence[str]) -> dict[str, list[int]]:
        """Delete the rows of documents; returns their chunks' ids by document, for `rest`."""
        chunks = {}
        for document in documents:
            if (directory := self.files / document).exists():
                (directory / _MARK).touch()
            of_document = Chunk.document_id == document
            chunks[document] = list(await session.scalars(select(Chunk.id).where(of_document)))
            await session.execute(delete(Document).where(Document.id == document))
            await _blank_passages(session, document)
            await blank_words(session, document)
        return chunks

    async def rest(self, chunks: dict[str, list[int]]) -> None:
        """Delete vectors, KV and files, and purge deleted text from the database file."""
        for document, ids in chunks.items():
            await self.index.remove(document, ids)
            await self.kv.forget(document)
            if (directory := self.files / document).exists():
                await asyncio.to_thread(_remove, directory)
        if chunks:
            await self.purge.now()


def _remove(directory: Path) -> None:
    """Renames first, so that a concurrent writer can no longer find the directory."""
    gone = directory.rename(directory.with_name(f"{directory.name}{_GONE}"))
    shutil.rmtree(gone)


async def _blank_passages(session: AsyncSession, document: str) -> None:
    """Remove a document's passages from stored answers; the answers' own text stays.

    Call it after the transaction's first write: an answer saved in between would be overwritten.
    """
    named = type_coerce(Message.record, String).contains(document, autoescape=True)
    for identity, record in await session.execute(select(Message.id, Message.record).where(named)):
        values = {"record": without(record, {document})}
        await session.execute(update(Message).where(Message.id == identity).values(values))


async def blank_words(session: AsyncSession, document: str) -> None:
    """Remove from the ledger the words of answers that read a document; their digest stays."""
    named = type_coerce(LedgerAnswer.sources, String).contains(document, autoescape=True)
    values = dict.fromkeys(("words", "sources", "passages"))
    await session.execute(update(LedgerAnswer).where(named).values(values))
