"""Full-text indexes: deleted words leave their files, however often that is needed.

An index only marks rows as deleted until its segments are merged. In some releases of SQLite, 3.40
among them, each merge adds a level to the index's structure, and an index of more than 2,000 levels
counts as damaged: not even the rows it indexes can then be written. A rebuilt index has none.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.owners import everyone

INDEXES = ("chunks_fts", "message_search")
_MOST_LEVELS = 1000
_NO_SEGMENTS = bytes(7)  # no levels, and nothing written
_STRUCTURE = 10  # the id of the structure record
_SECOND_FORMAT = b"\xff\x00\x00\x01"


async def merge(session: AsyncSession, index: str) -> None:
    """Remove deleted words from an index's files."""
    with everyone():  # an index covers all rows
        structure = await session.scalar(text(_structure(index)))
        name = "rebuild" if levels(structure) > _MOST_LEVELS else "optimize"
        await session.execute(text(command(index, name)))


def mend(database: Path) -> list[str]:
    """Rebuild the indexes with too many levels, and return their names. Blocks."""
    damaged = []
    with closing(sqlite3.connect(database)) as connection:
        for index in INDEXES:
            try:
                found = connection.execute(_structure(index)).fetchone()
            except sqlite3.OperationalError:  # not there yet in an older database
                continue
            if found and levels(found[0]) > _MOST_LEVELS:
                empty = f"UPDATE {index}_data SET block = ? WHERE id = {_STRUCTURE}"  # noqa: S608
                connection.execute(empty, (_NO_SEGMENTS,))
                damaged.append(index)
        connection.commit()
    with closing(sqlite3.connect(database)) as connection:  # the first connection caches the damage
        for index in damaged:
            connection.execute(command(index, "rebuild"))
        connection.commit()
    return damaged


def command(index: str, name: str, rank: int = 0) -> str:
    """The statement that gives an index an FTS5 command, with `rank` as its argument."""
    return f"INSERT INTO {index}({index}, rank) VALUES ('{name}', {rank})"  # noqa: S608


def levels(structure: bytes) -> int:
    """How many levels an index has, from its structure record.

    After a cookie of four bytes and, in the second format, a mark, the count is an SQLite varint:
    seven bits per byte, the highest first, while a byte's highest bit is set.
    """
    count = 0
    for byte in structure[4:].removeprefix(_SECOND_FORMAT):
        count = count << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return count


def _structure(index: str) -> str:
    return f"SELECT block FROM {index}_data WHERE id = {_STRUCTURE}"  # noqa: S608
