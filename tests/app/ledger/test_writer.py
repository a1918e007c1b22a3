"""The ledger while its disk fails: nothing is lost, and it says that nothing may leave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.ledger import writer
from app.ledger.verify import verify
from app.ledger.writer import Ledger
from app.storage import database
from app.storage.database import connect, session_maker
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
