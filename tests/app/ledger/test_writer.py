"""The ledger while its disk fails, and while words are deleted that are still to be written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from app.ledger import writer
from app.ledger.leakage import Asked, Part, PartKind
from app.ledger.verify import verify
from app.ledger.writer import Ledger
from app.owners import acting_as
from app.storage import database
from app.storage.database import Sessions, connect, session_maker
from app.storage.tables import LedgerAnswer
from harness.faults import disk
from tests.app.conftest import wait_until
from tests.app.stores import migrated


async def test_what_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_PRAGMAS", ("journal_mode = WAL", "busy_timeout = 1"))
    for name in ("_WRITE_S", "_RETRY_S", "_PATIENCE_S"):
        monkeypatch.setattr(writer, name, 0.01)
    engine = connect(migrated(tmp_path))
    ledger = Ledger(session_maker(engine))
    await ledger.start()
    with disk.locked(tmp_path):
        for number in range(3):
            with ledger.begin(f"answer-{number}", str, private=True):
                pass
        await asyncio.to_thread(wait_until, lambda: not ledger.writable)
    await ledger.written()
    found = await verify(ledger.sessions)
    assert (found.answers, found.entries) == (3, 6)
    await asyncio.to_thread(wait_until, lambda: ledger.writable)
    await ledger.close()
    await engine.dispose()
    assert caplog.messages == ["the ledger cannot be written: database is locked"]


async def test_answers_in_progress_keep_none_of_the_words_that_are_deleted_meanwhile(
    sessions: Sessions,
) -> None:
    ledger = Ledger(sessions)
    names = ["before", "given", "both", "after"]
    left = {}
    for name in names:
        with ledger.begin(name, lambda _: "words", private=False) as account:
            account.given([Part(PartKind.QUESTION, "Where?")])
            account.outbound.asked = Asked.QUESTION
            account.outbound.runs.append([1])
            if name == "given":
                await ledger.forget_given({name, "another"})
            if name == "both":
                await ledger.forget_words()
                async with ledger.sessions() as session:  # so a redaction sees them
                    assert "before" in (await session.scalars(select(LedgerAnswer.id))).all()
    await ledger.written()
    async with ledger.sessions() as session:
        for row in await session.scalars(select(LedgerAnswer)):
            left[row.id] = bool(row.words), bool(row.given)
    assert left == {
        "before": (True, True),
        "given": (True, False),
        "both": (False, False),
        "after": (True, True),
    }
    assert (await verify(ledger.sessions)).answers == len(names)


async def test_what_another_owner_redacts_is_kept_of_ones_own(sessions: Sessions) -> None:
    ledger = Ledger(sessions)
    with ledger.begin("answer", lambda _: "words", private=False) as account:
        account.outbound.runs.append([1])
        with acting_as("anna"):
            await ledger.forget_words()
    await ledger.written()
    async with ledger.sessions() as session:
        assert await session.scalar(select(LedgerAnswer.words)) == ["words"]
