"""Erases the data of a revoked key, on request.

The request is a file with the key's name, removed once nothing is left: a device follows requests
while it runs, and before it serves.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import pause
from app.conversations.store import ConversationStore
from app.documents.store import DocumentStore
from app.ledger.writer import Ledger
from app.owners import acting, acting_as
from app.storage.database import DATABASE
from app.storage.purge import give_up_ledger
from app.storage.tables import Conversation, Document, KnownAnswer, Project
from dragon.errors import NotFoundError
from dragon.whole_file import synchronise, write_whole

log = logging.getLogger(__name__)

_REQUESTS = "erasing"
# A revoked key's work in progress ends within two seconds.
_OUT_S = 3.0


def request_file(data_dir: Path, name: str) -> Path:
    """The file that exists from the request to erase a key's data until it is done."""
    return data_dir / _REQUESTS / name


def request_erasure(data_dir: Path, name: str) -> None:
    """Request that a key's data be erased; durable on return. Blocks."""
    write_whole(request_file(data_dir, name), "")
    synchronise(data_dir)


@dataclass
class Erasing:
    """Call `start` before serving anybody, and `close` before the stores are closed."""

    data_dir: Path
    sessions: async_sessionmaker[AsyncSession]
    documents: DocumentStore
    conversations: ConversationStore
    ledger: Ledger
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        """Erase what was requested meanwhile, and follow new requests."""
        for name in self._requests():
            await self._try(name)
        self._task = asyncio.create_task(self._run(), name="erasing")

    async def close(self) -> None:
        """Leave the rest to the next start; a deletion in progress is not interrupted."""
        self._closing.set()
        await self._task

    def _requests(self) -> set[str]:
        folder = self.data_dir / _REQUESTS
        names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
        return {name for name in names if not name.startswith(".")}  # a draft of `write_whole`

    async def _run(self) -> None:
        seen: set[str] = set()
        while not self._closing.is_set():
            for name in (requests := self._requests()) & seen:
                if not self.ledger.writes_for(name):
                    await self._try(name)
            seen = requests
            await pause(self._closing, _OUT_S)

    async def _try(self, name: str) -> None:
        try:
            with acting_as(name):
                await self._erase()
            await self.documents.settled()
            if not self._closing.is_set():
                request_file(self.data_dir, name).unlink(missing_ok=True)
                log.info("the data of a revoked key is erased")
        except (SQLAlchemyError, OSError):
            log.exception("the data of a revoked key could not be erased; trying again")

    async def _erase(self) -> None:
        """Delete everything that the current owner has."""
        for folder in await self.documents.folders.list():
            await self.documents.folders.remove(folder.id)
        documents, conversations = self.documents.delete, self.conversations.delete
        for table, remove in ((Document, documents), (Conversation, conversations)):
            # A shared document is readable by all: delete only the owner's.
            async with self.sessions() as session:
                own = select(table.id).where(table.owner == acting())
                ids = list(await session.scalars(own))
            for identity in ids:
                if self._closing.is_set():
                    return
                with suppress(NotFoundError):  # it expired
                    await remove(identity)
        await self.ledger.written()
        async with self.sessions.begin() as session:
            for kind in (Project, KnownAnswer):
                await session.execute(delete(kind))
            await give_up_ledger(session)
        await self.documents.purge.now()


def left_by(owner: str, data_dir: Path) -> str:
    """The numbers of an owner's documents and conversations, in words; "" if none. Blocks."""
    if not (data_dir / DATABASE).is_file():
        return ""
    found = []
    with (
        closing(sqlite3.connect(data_dir / DATABASE)) as connection,
        suppress(sqlite3.OperationalError),  # not used since owners were introduced
    ):
        for table in ("documents", "conversations"):
            counted = f"SELECT count(*) FROM {table} WHERE owner = ?"  # noqa: S608
            ((count,),) = connection.execute(counted, (owner,)).fetchall()
            found += [f"{count} {table if count > 1 else table[:-1]}"] if count else []
    return " and ".join(found)
