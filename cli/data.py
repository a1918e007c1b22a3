"""`dragon backup`, `restore` and `ledger verify`: the device's data directory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from app.settings import Settings
from dragon.errors import DragonError


def backup(path: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Back up documents, chats and the ledger to one file; the device may be running."""
    from app.storage import backup

    contents = backup.backup(Settings.read().data_dir, path)
    size = path.stat().st_size / 1e6
    print(f"{_documents(contents.documents)} in {path}, {size:.1f} MB.")


def restore(
    path: Annotated[Path, typer.Argument(help="What `dragon backup` wrote.")],
    replace: Annotated[bool, typer.Option(help="Replace the documents that are there.")] = False,
) -> None:
    """Restore a backup into the data directory; stop the device first."""
    from app.storage import backup

    contents = backup.restore(path, Settings.read().data_dir, replace=replace)
    print(f"{_documents(contents.documents)} of {contents.created} restored.")


def verify_ledger() -> None:
    """Check the chain of everything that left the device; the services may be running."""
    from app.ledger.verify import verify
    from app.storage.database import DATABASE, connect, database_url, session_maker

    data_dir = Settings.read().data_dir
    if not (data_dir / DATABASE).exists():
        raise DragonError(f"There is no ledger in {data_dir}: no device was started with it yet.")

    async def check() -> None:
        database = connect(database_url(data_dir))
        try:
            found = await verify(session_maker(database))
        finally:
            await database.dispose()
        print(f"{found.answers} answers, {found.entries} entries: the chain holds.")
        print(f"Its last hash is {found.head}")

    asyncio.run(check())


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"
