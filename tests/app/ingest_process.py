"""A device's document store in a process of its own, for tests that kill it.

    python -m tests.app.ingest_process DATA_DIR FILE

adds the file and prints `STAGE DONE TOTAL` a line as its ingestion goes on.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app import database
from app.documents import DocumentStore
from dragon.tokenizer import Tokenizer
from tests.fakes import NothingKept
from tests.samples import embedder


async def ingest(data_dir: Path, name: str, content: bytes) -> None:
    url = database.database_url(data_dir)
    database.migrate(url)
    sessions = database.session_maker(database.connect(url))
    tokenizer = Tokenizer.load("models/dragon-7m")
    store = DocumentStore(data_dir, sessions, embedder(), tokenizer, NothingKept())
    await store.start()
    document = await store.add(name, content)
    async for progress in await store.watch(document.id):
        print(progress.stage, progress.done, progress.total, flush=True)


if __name__ == "__main__":
    file = Path(sys.argv[2])
    asyncio.run(ingest(Path(sys.argv[1]), file.name, file.read_bytes()))
