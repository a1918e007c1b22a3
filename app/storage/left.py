"""What a revoked key has left, read from the database whether or not the device runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from app.storage.database import DATABASE


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
