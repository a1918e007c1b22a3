"""What programs read, in the ledger: any later change is found, and a deleted document goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from app.ledger.reads import Passage, ProgramRead, reads
from app.ledger.verify import LedgerDamagedError, verify
from app.owners import everyone
from app.storage.purge import blank_words
from dragon.errors import InvalidRequestError
from tests.app.api.page.test_ledger import opened, write

READ = ProgramRead("assistant 1", "read_passage", 12, (Passage("file-1", 3, 15),))


async def test_they_are_listed_newest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        given = [ProgramRead("assistant", "search_documents", size) for size in range(5)]
        for each in given:
            await ledger.read(each)
        newest = [row.id for row in await reads(ledger.sessions, 2, None)]
        assert newest == [given[4].id, given[3].id]
        older = await reads(ledger.sessions, 9, newest[-1])
        assert [row.bytes for row in older] == [2, 1, 0]
        with pytest.raises(InvalidRequestError):
            await reads(ledger.sessions, 1, "read-of-nobody")


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE ledger_reads SET reader = 'nobody'",
        "UPDATE ledger_reads SET passages = '[]'",
        "DELETE FROM ledger_reads",
        "DELETE FROM ledger_entries WHERE kind = 'read'",
        "UPDATE ledger_entries SET bytes = 1 WHERE kind = 'read'",
    ],
)
async def test_every_later_change_is_found(tmp_path: Path, harm: str) -> None:
    async with opened(tmp_path) as ledger:
        write(ledger, "answer-1", 1)
        await ledger.read(READ)
        found = await verify(ledger.sessions)
        assert (found.answers, found.entries) == (1, 7)
        async with ledger.sessions.begin() as session:
            with everyone():
                await session.execute(text(harm))
        with pytest.raises(LedgerDamagedError):
            await verify(ledger.sessions)


async def test_a_deleted_document_is_named_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.read(READ)
        await ledger.read(ProgramRead("assistant 1", "read_passage", 5, (Passage("file-2", 0, 5),)))
        async with ledger.sessions.begin() as session:
            await blank_words(session, "file-1")
        other, gone = await reads(ledger.sessions, 2, None)
        assert gone.passages is None
        assert other.passages == [{"document": "file-2", "start": 0, "end": 5}]
        assert (await verify(ledger.sessions)).entries == 2
