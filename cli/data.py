"""`dragon backup`, `restore`, `ledger verify` and `doctor`: the device's data directory."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.settings import Settings
from dragon.errors import DragonError

if TYPE_CHECKING:
    from app.ledger.verify import Verified

_RESTORE = "restore a backup: dragon restore FILE --replace"


def backup(path: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Back up documents, chats and the ledger to one file; the device may be running."""
    from app.storage.data_dir import backup

    contents = backup(Settings.read().data_dir, path)
    size = path.stat().st_size / 1e6
    print(f"{_documents(contents.documents)} in {path}, {size:.1f} MB.")


def restore(
    path: Annotated[Path, typer.Argument(help="What `dragon backup` wrote.")],
    replace: Annotated[bool, typer.Option(help="Replace the documents that are there.")] = False,
) -> None:
    """Restore a backup into the data directory; stop the device first."""
    from app.storage.data_dir import restore

    contents = restore(path, Settings.read().data_dir, replace=replace)
    print(f"{_documents(contents.documents)} of {contents.created} restored.")


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"


def verify_ledger() -> None:
    """Check the chain of everything that left the device; the services may be running."""
    from app.storage.database import DATABASE

    data_dir = Settings.read().data_dir
    if not (data_dir / DATABASE).exists():
        raise DragonError(f"There is no ledger in {data_dir}: no device was started with it yet.")
    found = asyncio.run(_verified(data_dir))
    print(f"{found.answers} answers, {found.entries} entries: the chain holds.")
    print(f"Its last hash is {found.head}")


async def _verified(data_dir: Path) -> Verified:
    from app.ledger.verify import verify
    from app.storage.database import connect, database_url, session_maker

    database = connect(database_url(data_dir))
    try:
        return await verify(session_maker(database))
    finally:
        await database.dispose()


@dataclass(frozen=True)
class Finding:
    """The result of one check; `well` means that nothing is left to do by hand."""

    what: str
    says: str
    well: bool = True


def doctor() -> None:
    """Check database, files, indexes and ledger, and repair the indexes; stop the device first."""
    from app.storage.data_dir import owned, require_database

    settings = Settings.read()
    data_dir = settings.data_dir
    with owned(data_dir):
        require_database(data_dir)
        found = list(examine(data_dir, settings.embedder))
    for each in found:
        print(f"{'ok   ' if each.well else 'WRONG'}  {each.what:<10}  {each.says}")
    if not all(each.well for each in found):
        raise typer.Exit(1)


def examine(data_dir: Path, embedder: Path | None) -> Iterator[Finding]:
    """Run every check in turn; only the first if the database cannot be read."""
    from app.disk import RESERVED_BYTES
    from app.documents.cell import layers
    from app.storage import full_text
    from app.storage.database import DATABASE

    try:
        mended = full_text.mend(data_dir / DATABASE)
    except sqlite3.DatabaseError:
        mended = []  # the first check reports it, whatever it is
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        try:
            yield _database(connection)
            yield _full_text(connection, mended)
            yield _originals(connection, data_dir)
            yield _vectors(connection, data_dir, embedder)
        except sqlite3.DatabaseError as error:
            yield Finding("database", f"cannot be read ({error}); {_RESTORE}", well=False)
            return
    yield _ledger(data_dir)
    place = data_dir / "quarantine"
    if count := len(list(place.iterdir())) if place.is_dir() else 0:
        says = f"{count} files that the database does not know, in {place}: upload or delete them"
        yield Finding("quarantine", says, well=False)
    else:
        yield Finding("quarantine", "empty")
    apart = "see no files and no network"
    limited = "are limited in time and memory only: this system has no cell"
    yield Finding("parsers", apart if len(layers()) == 2 else limited)
    yield _scans()
    free = shutil.disk_usage(data_dir).free
    yield Finding("disk", f"{free / 1e9:.1f} GB free", well=free > 2 * RESERVED_BYTES)


def _database(connection: sqlite3.Connection) -> Finding:
    problems = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    if problems != ["ok"]:
        return Finding("database", f"{'; '.join(problems)}; {_RESTORE}", well=False)
    if strays := connection.execute("PRAGMA foreign_key_check").fetchall():
        return Finding("database", f"{len(strays)} rows refer to missing rows", well=False)
    (documents,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    (conversations,) = connection.execute("SELECT count(*) FROM conversations").fetchone()
    return Finding("database", f"{documents} documents, {conversations} conversations")


def _full_text(connection: sqlite3.Connection, mended: Sequence[str]) -> Finding:
    from app.storage.full_text import INDEXES, command

    mended = list(mended)
    for name in INDEXES:
        try:
            connection.execute(command(name, "integrity-check", 1))
        except sqlite3.DatabaseError:
            connection.execute(command(name, "rebuild"))
            mended.append(name)
    connection.commit()
    return Finding("words", f"made again: {', '.join(mended)}" if mended else "can be searched")


def _originals(connection: sqlite3.Connection, data_dir: Path) -> Finding:
    from app.documents.folders.keeping import content_identity
    from app.documents.uploads import identity

    lost, altered = [], []
    rows = list(connection.execute("SELECT id, filename, owner FROM documents ORDER BY rowid"))
    # A moved document keeps its id, and so does a renamed watched file.
    kept = connection.execute("SELECT DISTINCT collection FROM documents UNION VALUES ('')")
    collections = [collection for (collection,) in kept]
    for document, name, owner in rows:
        path = data_dir / "files" / document / "original"
        if not path.is_file():
            lost.append(name)
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if not any(
            document == made(name, collection, digest, owner)
            for collection in collections
            for made in (identity, content_identity)
        ):
            altered.append(name)
    whole = len(rows) - len(lost) - len(altered)
    says = [f"{whole} of {len(rows)} as they were uploaded"]
    if lost:
        says.append(f"lost, upload them again: {', '.join(lost)}")
    if altered:
        says.append(f"altered, delete and upload them again: {', '.join(altered)}")
    return Finding("originals", "; ".join(says), well=not (lost or altered))


def _vectors(connection: sqlite3.Connection, data_dir: Path, embedder: Path | None) -> Finding:
    from dragon.retrieval.embedder import Embedder
    from dragon.retrieval.index import IndexFileError, Segments

    model = Embedder.load(embedder)
    segments = Segments(data_dir / "index", model.fingerprint, model.dim)
    rows = connection.execute("SELECT id FROM documents WHERE status = 'processed'").fetchall()
    missing = 0
    for (document,) in rows:
        chunks = connection.execute(
            "SELECT id FROM chunks WHERE document_id = ? ORDER BY id", (document,)
        )
        try:
            held = {key for path in segments.of(document) for key in segments.read(path)[0]}
            whole = held == {identity for (identity,) in chunks}
        except IndexFileError:
            whole = False
        missing += not whole
    again = f"; {missing} missing or damaged, which the next start makes again" if missing else ""
    return Finding("vectors", f"of {len(rows) - missing} of {len(rows)} documents{again}")


def _ledger(data_dir: Path) -> Finding:
    from app.ledger.verify import LedgerDamagedError

    try:
        found = asyncio.run(_verified(data_dir))
    except LedgerDamagedError as error:
        return Finding("ledger", error.message, well=False)
    return Finding("ledger", f"{found.answers} answers, {found.entries} entries: the chain holds")


def _scans() -> Finding:
    from app.documents.readers.common import UnreadableError
    from app.documents.readers.ocr import NEEDED, installed

    if (ocr := installed()) is None:
        return Finding("scans", f"are not read. {NEEDED}")
    try:
        return Finding("scans", f"are read by {ocr.program}: {', '.join(ocr.languages)}")
    except UnreadableError as error:
        return Finding("scans", f"are not read. {error.message}")
