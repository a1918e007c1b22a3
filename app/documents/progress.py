"""How far a document's ingestion has come, for those who watch it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

from app.storage.tables import Document, Status


class Stage(StrEnum):
    """What has been done to a document, in this order. It can be found from `indexed` on."""

    STORED = "stored"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INDEXED = "indexed"
    CACHED = "cached"


@dataclass(frozen=True)
class Progress:
    """A stage a document has reached: `done` of `total` pages when parsed, else of its chunks."""

    stage: Stage
    status: Status = Status.UPLOADED
    done: int = 0
    total: int = 0
    message: str | None = None


async def final(document: Document) -> AsyncIterator[Progress]:
    """All there is to tell of a document that nothing is done to any more."""
    stage = Stage.CACHED if document.cached else Stage.INDEXED
    status = Status(document.status)
    yield Progress(stage, status, document.chunks, document.chunks, document.status_details)


class Channel:
    """Progress of one document for any number of watchers; a slow one skips, never queues up."""

    def __init__(self) -> None:
        self._stages: dict[Stage, Progress] = {}
        self._changed = asyncio.Event()
        self._closed = False
        self.stage = Stage.STORED

    def publish(self, progress: Progress) -> None:
        """Tell every watcher."""
        self.stage = progress.stage
        self._stages[progress.stage] = progress
        self._wake()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncIterator[Progress]:
        """Progress from the first stage on until the channel closes."""
        seen: set[Progress] = set()
        while True:
            changed, closed = self._changed, self._closed
            for progress in [each for each in self._stages.values() if each not in seen]:
                seen.add(progress)
                yield progress
            if closed:
                return
            if changed is self._changed:
                await changed.wait()
