"""Full-text indexes outlast any number of deletions, and those that did not are made again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from app.owners import everyone
from app.storage import full_text
from app.storage.database import DATABASE, connect, database_url, migrate, session_maker
from tests.app.stores import migrated

# SQLite 3.40 reads none of more than 2000 levels.
TOO_MANY = 2001


async def write(session: AsyncSession, message: str) -> None:
    with everyone():
        new = "INSERT INTO message_search(text, message, conversation) VALUES (:id, :id, 'one')"
        await session.execute(text(new), {"id": message})


async def found(session: AsyncSession, word: str) -> int:
    query = text("SELECT count(*) FROM message_search WHERE message_search MATCH :word")
    with everyone():
        return int(await session.scalar(query, {"word": word}) or 0)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    engine = connect(migrated(tmp_path))
    yield engine
    await engine.dispose()


async def test_deleting_more_often_than_there_are_levels(database: AsyncEngine) -> None:
    async with session_maker(database).begin() as session:
        await write(session, "kept")
        for number in range(50):  # a level is added where much is kept, and little new
            await write(session, " ".join(f"{number}and{other}" for other in range(30)))
        for number in range(TOO_MANY // 3):
            await write(session, f"w{number}")
            await full_text.merge(session, "message_search")
            with everyone():
                await session.execute(text("DELETE FROM message_search WHERE message LIKE 'w%'"))
            await full_text.merge(session, "message_search")
    # Another connection reads the structure anew.
    await database.dispose()
    async with session_maker(database)() as session:
        assert await found(session, "kept") == 1
        assert await found(session, "w7") == 0
        with everyone():
            held = await session.execute(text("SELECT block FROM message_search_data"))
        assert not any(b"w7" in block for (block,) in held)


async def test_one_with_too_many_levels_is_made_again_at_the_start(
    database: AsyncEngine, tmp_path: Path
) -> None:
    async with session_maker(database).begin() as session:
        await write(session, "kept")
    await database.dispose()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        read = "SELECT block FROM message_search_data WHERE id = 10"
        (block,) = connection.execute(read).fetchone()
        assert full_text.levels(block) == 1
        damaged = block[:4] + bytes([TOO_MANY >> 7 | 0x80, TOO_MANY & 0x7F]) + block[5:]
        connection.execute("UPDATE message_search_data SET block = ? WHERE id = 10", (damaged,))
        connection.commit()
    assert full_text.levels(damaged) == TOO_MANY
    await asyncio.to_thread(migrate, database_url(tmp_path))
    async with session_maker(database)() as session:
        assert await found(session, "kept") == 1


def test_the_second_format_has_a_mark() -> None:
    assert full_text.levels(b"\0\0\0\x05\xff\0\0\x01\x8f\x51") == TOO_MANY
