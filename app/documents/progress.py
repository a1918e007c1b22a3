"""Progress of a document's ingestion, published to any number of watchers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from enum import StrEnum

from app.storage.tables import Document, Status


class Phase(StrEnum):
    """Phases of ingestion: `chunked` is found by its words, `embedded` by its meaning, too."""

    STORED = "stored"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INDEXED = "indexed"


@dataclass(frozen=True)
class Progress:
    """The progress of a stage: `done` of `total` pages when parsed, else of chunks.

    While a text is being cut, `total` is an estimate. `percent` and `seconds_left`, an estimate or
    None, are those of the stage.
    """

    stage: Phase
    status: Status = Status.UPLOADED
    done: int = 0
    total: int = 0
    message: str | None = None
    percent: int = 100
    seconds_left: float | None = None


async def final(document: Document) -> AsyncIterator[Progress]:
    """The single, final event of a document that is not being ingested."""
    yield ended(document)


def ended(document: Document) -> Progress:
    """The last event of a document's ingestion, with the message for the user, if any."""
    status, count = Status(document.status), document.chunks
    return Progress(Phase.INDEXED, status, count, count, document.status_details)


class Channel:
    """Broadcasts one document's progress; a slow watcher skips events and never queues them."""

    def __init__(self) -> None:
        self._stages: dict[Phase, Progress] = {}
        self._began = 0.0, 0  # when the stage began, and how much was done then
        self._changed = asyncio.Event()
        self._closed = False
        self.stage = Phase.STORED

    def publish(self, progress: Progress) -> None:
        """Publish to every watcher, with percent and estimate."""
        now = time.monotonic()
        if progress.stage not in self._stages:
            self._began = now, progress.done
        began, already = self._began
        left, fresh = progress.total - progress.done, progress.done - already
        if left > 0:
            seconds = round(left * (now - began) / fresh, 1) if fresh > 0 else None
            percent = 100 * progress.done // progress.total
            progress = replace(progress, percent=percent, seconds_left=seconds)
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
