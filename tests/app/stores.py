"""Document stores on real files, and what tests ask of their data directories."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import select

from app.documents.ingestion import Phase, Progress
from app.documents.store import DocumentStore
from app.paths import packaged
from app.storage import database
from app.storage.tables import Chunk, Document, Status
from dragon.inference.kv_store import KVStore
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import Segments
from harness.adding import add
from tests.samples import embedder, judge

NOTE = b"The spare key hangs under the third flowerpot on the balcony.\n"
OTHER = b"The router's passcode is K7-QX41; it sits behind the bookshelf.\n"


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        database.migrate(database.database_url(Path(folder)))
        return (Path(folder) / database.DATABASE).read_bytes()


def migrated(data_dir: Path) -> str:
    """The URL of a directory's database; a new one is a copy of one that was migrated before."""
    path, url = data_dir / database.DATABASE, database.database_url(data_dir)
    if path.exists():
        database.migrate(url)
    else:
        path.write_bytes(_empty_database())
    return url


@asynccontextmanager
async def opened(
    data_dir: Path,
    model: Embedder | None = None,
    kv: KVStore | None = None,
    watch: Sequence[Path] = (),
) -> AsyncIterator[DocumentStore]:
    """A running store; everything of it is closed at the end, as when the service stops."""
    data_dir.mkdir(parents=True, exist_ok=True)
    engine = database.connect(await asyncio.to_thread(migrated, data_dir))
    store = DocumentStore(
        data_dir,
        database.session_maker(engine),
        model or embedder(),
        kv or KVStore(data_dir / "kv", None, 0),
        judge(),
    )
    await store.start(watch)
    yield store
    try:
        await store.close()
    finally:
        await engine.dispose()


def downgrade(data_dir: Path, revision: str) -> None:
    """Give a database the tables that it had at a revision."""
    config = Config()
    config.set_main_option("script_location", str(packaged("alembic")))
    config.attributes["url"] = f"sqlite:///{data_dir / database.DATABASE}"
    command.downgrade(config, revision)


def known(data_dir: Path, identity: str, name: str) -> None:
    """Make the device know a document by name; the database is made."""
    migrated(data_dir)
    columns = "id, filename, purpose, kind, bytes, created_at, status"
    row = (identity, name, "user_data", "text", 25, 0, Status.PROCESSED)
    with closing(sqlite3.connect(data_dir / database.DATABASE)) as connection, connection:
        connection.execute(f"INSERT INTO documents ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)


async def finished(store: DocumentStore, document: Document) -> list[Progress]:
    return [progress async for progress in await store.watch(document.id)]


async def reached(store: DocumentStore, document: Document, stage: Phase) -> None:
    """Return once a document's ingestion is in this stage."""
    async for progress in await store.watch(document.id):
        if progress.stage == stage:
            return


async def settled(store: DocumentStore) -> None:
    """Return once nothing is being taken in."""
    for document in await store.list():
        await finished(store, document)


async def ingest(
    store: DocumentStore, name: str, content: bytes, collection: str = "", *, replace: bool = False
) -> Document:
    document = await add(store, name, content, collection=collection, replace=replace)
    await finished(store, document)
    return await store.get(document.id)


def files(data_dir: Path, *directories: str) -> list[str]:
    within = [path for directory in directories for path in (data_dir / directory).rglob("*")]
    return sorted(str(path.relative_to(data_dir)) for path in within)


def traces(data_dir: Path, *needles: bytes) -> list[str]:
    """Files that contain one of the needles, in their name or their bytes."""
    found = []
    for path in data_dir.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if any(needle in content or needle in path.name.encode() for needle in needles):
            found.append(str(path.relative_to(data_dir)))
    return found


async def chunk_ids(data_dir: Path) -> list[int]:
    engine = database.connect(database.database_url(data_dir))
    async with database.session_maker(engine)() as session:
        ids = list(await session.scalars(select(Chunk.id).order_by(Chunk.id)))
    await engine.dispose()
    return ids


def segment_of(data_dir: Path, document: Document) -> Path:
    """The file of a short document's vectors."""
    (path,) = (data_dir / "index").glob(f"{document.id}.*.safetensors")
    return path


def index_ids(data_dir: Path) -> list[int]:
    """The chunks that have a vector on disk."""
    segments = Segments(data_dir / "index", embedder().fingerprint, embedder().dim)
    return sorted(key for path in (data_dir / "index").iterdir() for key in segments.read(path)[0])
