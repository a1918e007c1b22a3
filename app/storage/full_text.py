"""Full-text indexes: deleted words leave their files, however often that is asked for.

An index only marks rows as deleted until its segments are merged. In some releases of SQLite, 3.40
among them, each merge adds a level to the index's structure, and an index of more than 2,000 levels
counts as damaged: not even the rows that it is of can be written then. One made again has none.
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
_NO_SEGMENTS = bytes(7)  # no level, and nothing written
_STRUCTURE = 10  # the id of its record
_SECOND_FORMAT = b"\xff\x00\x00\x01"


async def merge(session: AsyncSession, index: str) -> None:
    """Take deleted words out of an index."""
    with everyone():  # an index is of all rows
        structure = await session.scalar(text(_structure(index)))
        name = "rebuild" if levels(structure) > _MOST_LEVELS else "optimize"
        await session.execute(text(command(index, name)))


def mend(database: Path) -> list[str]:
    """Make those indexes again that have too many levels, and return their names. Blocks."""
    damaged = []
    with closing(sqlite3.connect(database)) as connection:
        for index in INDEXES:
            try:
                found = connection.execute(_structure(index)).fetchone()
            except sqlite3.OperationalError:  # an older database has none yet
                continue
            if found and levels(found[0]) > _MOST_LEVELS:
                empty = f"UPDATE {index}_data SET block = ? WHERE id = {_STRUCTURE}"  # noqa: S608
                connection.execute(empty, (_NO_SEGMENTS,))
                damaged.append(index)
        connection.commit()
    with closing(sqlite3.connect(database)) as connection:  # the first one holds on to the damage
        for index in damaged:
            connection.execute(command(index, "rebuild"))
        connection.commit()
    return damaged


def command(index: str, name: str, rank: int = 0) -> str:
    """The statement that gives an index a command of FTS5's, whose argument is `rank`."""
    return f"INSERT INTO {index}({index}, rank) VALUES ('{name}', {rank})"  # noqa: S608


def levels(structure: bytes) -> int:
    """How many levels an index has, of the record of its structure.

    Behind a cookie of four bytes, and in its second format a mark, they are a variable-length
    integer of SQLite's: seven bits a byte, the highest first, as long as a byte's own highest bit
    is set.
    """
    count = 0
    for byte in structure[4:].removeprefix(_SECOND_FORMAT):
        count = count << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return count


def _structure(index: str) -> str:
    return f"SELECT block FROM {index}_data WHERE id = {_STRUCTURE}"  # noqa: S608
