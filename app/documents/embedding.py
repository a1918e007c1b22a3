"""Vectors of documents' sentences, made in the background, the newest document's first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.index import DocumentIndex
from app.documents.jobs import RunJob, Turns
from app.storage.tables import Chunk
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import Passage, TextEmbedder
from dragon.retrieval.index import Vectors

# Of one idle job, in UTF-8 about: an urgent job waits for at most one.
_JOB_BYTES = 640
# A document of so few sentences costs little: each is embedded by itself with its context, as
# questions see it.
_SHORT = 8
# Sentences between which a newer document comes first, and of a file: what a kill may cost.
_TURN, _PART = 64, 2048


@dataclass(frozen=True)
class Embedding:
    """Embeds the sentences that lack vectors; what is written to the disk is not done again."""

    sessions: async_sessionmaker[AsyncSession]
    embedder: TextEmbedder
    index: DocumentIndex
    run_idle: RunJob
    _turns: Turns = field(default_factory=Turns)

    async def embed(self, document: str, rank: int, progress: Callable[[int, int], None]) -> None:
        """Make what a document lacks; `progress` receives how many of its sentences are done.

        Documents of a higher `rank` come first.
        """
        ids = await to_the_end(self._ids(document))
        lacking = await self.index.lacking(document, ids)
        done = len(ids) - len(lacking)
        progress(done, len(ids))
        for start in range(0, len(lacking), _PART):
            part = lacking[start : start + _PART]
            vectors = np.empty((len(part), self.embedder.dim), dtype=np.float32)
            for first in range(0, len(part), _TURN):
                some = part[first : first + _TURN]
                out = vectors[first : first + len(some)]
                async with self._turns.turn(rank):
                    await self._embed(some, out, together=len(ids) > _SHORT)
                done += len(some)
                progress(done, len(ids))
            await to_the_end(self.index.add(document, part, vectors))

    # A query that is cancelled would leave its snapshot open.

    async def _ids(self, document: str) -> list[int]:
        own = select(Chunk.id).where(Chunk.document_id == document).order_by(Chunk.id)
        async with self.sessions() as session:
            return list(await session.scalars(own))

    async def _passages(self, ids: Sequence[int]) -> list[Passage]:
        passages = select(Chunk.text, Chunk.context).where(Chunk.id.in_(ids)).order_by(Chunk.id)
        async with self.sessions() as session:
            return [(text, context) for text, context in await session.execute(passages)]

    async def _embed(self, ids: Sequence[int], out: Vectors, *, together: bool) -> None:
        """Embed chunks into `out`, float32 [len(ids), dim]."""
        done = 0
        for job in _jobs(await to_the_end(self._passages(ids))):
            if together:
                work = partial(self.embedder.embed_passages, job)
            else:
                work = partial(self.embedder.embed, [embedded_text(*passage) for passage in job])
            out[done : done + len(job)] = await self.run_idle(work)
            done += len(job)


def _jobs(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    """Passages one after another, a few at a time."""
    job: list[Passage] = []
    size = 0
    for text, context in passages:
        size += len(text.encode())
        if job and size > _JOB_BYTES:
            yield job
            job, size = [], len(text.encode())
        job.append((text, context))
    if job:
        yield job
