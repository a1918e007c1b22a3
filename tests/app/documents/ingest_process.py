"""A device's document store in a process of its own, which kills itself at a moment of a test's.

    python -m tests.app.documents.ingest_process DATA_DIR FILE MOMENT

adds the file and is killed at MOMENT of its ingestion: when a stage is told of (a stage's name), at
the second batch ("half embedded"), before the rows say so ("vectors written"), or after ("found").
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from app.documents.index import DocumentIndex
from app.documents.ingestion import Channel, Ingestion, Phase, Progress
from app.documents.store import DocumentStore
from app.owners import DEVICE, act_as
from app.storage import database
from dragon.inference.kv_store import KVStore
from dragon.retrieval.index import Vectors
from harness.adding import add
from tests.samples import embedder, judge


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingChannel(Channel):
    moment = ""

    def publish(self, progress: Progress) -> None:
        half = progress.stage == Phase.EMBEDDED and progress.done > 0
        if self.moment == progress.stage or (self.moment == "half embedded" and half):
            die()
        super().publish(progress)


async def ingest(data_dir: Path, name: str, content: bytes) -> None:
    act_as(DEVICE)
    url = database.database_url(data_dir)
    database.migrate(url)
    sessions = database.session_maker(database.connect(url))
    store = DocumentStore(
        data_dir, sessions, embedder(), KVStore(data_dir / "kv", None, 0), judge()
    )
    await store.start()
    document = await add(store, name, content)
    async for _ in await store.watch(document.id):
        pass


def die_at(moment: str) -> None:
    DyingChannel.moment = moment
    sys.modules["app.documents.ingestion"].Channel = DyingChannel  # type: ignore[attr-defined]
    add = DocumentIndex.add

    async def add_and_die(
        self: DocumentIndex, document: str, ids: Sequence[int], vectors: Vectors
    ) -> None:
        await add(self, document, ids, vectors)
        die()

    publish = Ingestion._publish

    async def publish_and_die(self: Ingestion, document_id: str) -> int:
        await publish(self, document_id)
        die()
        raise AssertionError

    if moment == "vectors written":
        DocumentIndex.add = add_and_die  # type: ignore[method-assign]
    if moment == "found":
        Ingestion._publish = publish_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    file = Path(sys.argv[2])
    die_at(sys.argv[3])
    asyncio.run(ingest(Path(sys.argv[1]), file.name, file.read_bytes()))
