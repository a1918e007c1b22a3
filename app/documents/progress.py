"""Progress of a document's ingestion, published to any number of watchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

from app.storage.tables import Document, Status


class Stage(StrEnum):
    """Stages of ingestion, in order. A document can be found once it is `indexed`."""

    STORED = "stored"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INDEXED = "indexed"
    CACHED = "cached"


@dataclass(frozen=True)
class Progress:
    """The stage reached: `done` of `total` pages when parsed, of chunks in later stages."""

    stage: Stage
    status: Status = Status.UPLOADED
    done: int = 0
    total: int = 0
    message: str | None = None


async def final(document: Document) -> AsyncIterator[Progress]:
    """The single, final event of a document that is not being ingested."""
    stage = Stage.CACHED if document.cached else Stage.INDEXED
    status = Status(document.status)
    yield Progress(stage, status, document.chunks, document.chunks, document.status_details)


class Channel:
    """Broadcasts one document's progress; a slow watcher skips events and never queues them."""

    def __init__(self) -> None:
        self._stages: dict[Stage, Progress] = {}
        self._changed = asyncio.Event()
        self._closed = False
        self.stage = Stage.STORED

    def publish(self, progress: Progress) -> None:
        """Publish to every watcher."""
        self.stage = progress.stage
        self._stages[progress.stage] = progress
        self._wake()

    def close(self) -> None:
        """End every watcher's stream."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncIterator[Progress]:
        """Events from the first stage until the channel closes."""
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
