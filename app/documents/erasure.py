"""Deletes documents, some by themselves in time, with what derives from them in stored answers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import String, delete, select, type_coerce
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import pause
from app.disk import cause_of, is_of_disk
from app.documents.index import DocumentIndex
from app.documents.tables.records import Shelf
from app.documents.uploads import ARRIVING, DELETING, arrived
from app.owners import everyone
from app.storage.purge import Purge, blank_words
from app.storage.tables import Chunk, Document, StoredMessage
from dragon.errors import NotFoundError
from dragon.inference.kv_store import KVStore
from dragon.whole_file import synchronise

log = logging.getLogger(__name__)

_AGAIN_S = 0.5
_GONE = ".deleted"  # ends the name of a directory that is being removed

GONE = "deleted document"
"""Shown in place of a deleted document's name."""

_NOTHING: dict[str, Any] = {"id": "", "title": GONE, "text": "", "around": "", "deleted": True}
_NOTHING |= dict.fromkeys(("page", "start", "end"))


def cited(record: dict[str, Any]) -> set[str]:
    """The ids of private documents in a record: those it quotes and those it was limited to."""
    passages = [*record.get("sources", []), *record.get("closest", [])]
    own = {source["id"] for source in passages if source["side"] == "private"}
    return own.union(record.get("asked", {}).get("documents") or ())


def without(record: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """The record without the content of deleted documents; sources keep their index and weight."""
    if cited(record).isdisjoint(gone):
        return record
    sources = [
        source | (_NOTHING if source["side"] == "private" and source["id"] in gone else {})
        for source in record.get("sources", [])
    ]
    kept = record | {"sources": sources}
    if closest := record.get("closest"):
        kept["closest"] = [source for source in closest if source["id"] not in gone]
    if chosen := record.get("asked", {}).get("documents"):
        left = [document for document in chosen if document not in gone]
        kept["asked"] = record["asked"] | {"documents": left}
    return kept


@dataclass
class Erasure:
    """Deletes rows within the caller's transaction, and then all that derives from them.

    A document's directory is marked before its rows are deleted, so that after a crash in between
    the next start can tell it from one whose row was lost. The second step is retried while the
    disk fails.
    """

    files: Path
    index: DocumentIndex
    kv: KVStore
    tables: Shelf
    purge: Purge
    sessions: async_sessionmaker[AsyncSession]
    changing: asyncio.Lock  # held while documents are added
    _owed: set[asyncio.Task[None]] = field(default_factory=set)

    def recover(self, known: set[str], quarantine: Path) -> list[str]:
        """Finish deletions, undo uploads that a crash cut short; returns ids put aside. Blocks."""
        lost = []
        for path in self.files.iterdir():
            if not path.is_dir():
                continue  # left by a file browser
            if path.name in known:
                arrived(path)
                (path / DELETING).unlink(missing_ok=True)  # the deletion was not committed
            elif (
                any((path / mark).exists() for mark in (DELETING, ARRIVING))
                or path.suffix == _GONE
                or not (path / "original").exists()
            ):
                shutil.rmtree(path)  # no upload of it was acknowledged
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
                (directory / DELETING).touch()
                synchronise(directory)
            of_document = Chunk.document_id == document
            found = list(await session.scalars(select(Chunk.id).where(of_document)))
            gone = delete(Document).where(Document.id == document).returning(Document.id)
            if await session.scalar(gone) is None:
                continue  # another owner's
            chunks[document] = found
            with everyone():  # in the answers of all who could read it
                await blank_passages(session, document)
                await blank_words(session, document)
        return chunks

    async def rest(self, chunks: dict[str, list[int]]) -> None:
        """Delete vectors, KV, files and text in the database file, as soon as the disk allows."""
        try:
            await self._rest(chunks)
        except (OSError, OperationalError) as error:
            if not is_of_disk(error):
                raise
            log.warning("files of deleted documents cannot be removed yet: %s", cause_of(error))
            task = asyncio.create_task(self._later(chunks), name="erasure")
            self._owed.add(task)
            task.add_done_callback(self._owed.discard)

    async def settled(self) -> None:
        """Return once nothing of the deleted documents is left."""
        await asyncio.gather(*self._owed)
        await self.purge.settled()

    async def close(self) -> None:
        """Stop; files that could not be removed are removed at the next start."""
        for task in self._owed:
            task.cancel()
        await asyncio.gather(*self._owed, return_exceptions=True)
        await self.purge.close()

    async def _later(self, chunks: dict[str, list[int]]) -> None:
        there = select(Document.id).where(Document.id.in_(chunks))
        while True:
            await asyncio.sleep(_AGAIN_S)
            try:
                async with self.changing:
                    with everyone():
                        async with self.sessions() as session:
                            again = set(await session.scalars(there))  # uploaded again meanwhile
                    return await self._rest({d: c for d, c in chunks.items() if d not in again})
            except (OSError, OperationalError) as error:
                if not is_of_disk(error):
                    raise

    async def _rest(self, chunks: dict[str, list[int]]) -> None:
        for document, ids in chunks.items():
            await self.index.remove(document, ids)
            await asyncio.to_thread(self.kv.forget, document)
            self.tables.forget()
            await asyncio.to_thread(_remove, self.files / document)
        if chunks:
            await self.purge.now()


def _remove(directory: Path) -> None:
    """Remove a directory, renamed first so that a concurrent writer no longer finds it."""
    gone = directory.with_name(f"{directory.name}{_GONE}")
    with suppress(FileNotFoundError):
        directory.rename(gone)
    with suppress(FileNotFoundError):
        shutil.rmtree(gone)


async def blank_passages(session: AsyncSession, document: str, but_of: str | None = None) -> None:
    """Blank a document's passages in all answers but `but_of`'s; the session has written before."""
    named = type_coerce(StoredMessage.record, String).contains(document, autoescape=True)
    if but_of is not None:
        named &= StoredMessage.owner != but_of
    for message in await session.scalars(select(StoredMessage).where(named)):
        message.record = without(message.record, {document})
    await session.flush()


# It looks again at least so often, since the clock may be set and the disk may fail.
_LONGEST_S = 60.0


async def expire(
    sessions: async_sessionmaker[AsyncSession],
    delete: Callable[[str], Awaitable[None]],
    changed: asyncio.Event,
    closing: asyncio.Event,
) -> None:
    """Delete documents when they expire, until `closing`; a deletion that has begun is completed.

    `delete` takes an id; `changed` says that another document may expire next, or wakes it to end.
    Cancelled, it might leave a query's snapshot open, and deleted text in the log with it.
    """
    expires = Document.expires_at
    coming = select(Document.id, expires).where(expires.is_not(None)).order_by(expires)
    while not closing.is_set():
        changed.clear()
        left = _LONGEST_S
        try:
            async with sessions() as session:
                rows = (await session.execute(coming)).all()
            for document, at in rows:
                if closing.is_set() or (left := (at or 0) - time.time()) > 0:
                    break
                with suppress(NotFoundError):  # deleted meanwhile
                    await delete(document)
                left = _LONGEST_S
        except Exception:  # whatever it is, other documents still expire
            log.exception("expired documents could not be deleted; trying again")
            left = _LONGEST_S
        await pause(changed, min(left, _LONGEST_S))
