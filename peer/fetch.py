"""Sending documents to a device that answers alone: the baselines DRCG/Text and DRCG/KV."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dragon.decoder import Row, document_kv
from dragon.errors import DragonError, InvalidRequestError
from dragon.link import kv_frames, messages
from dragon.protocol import SessionMessage
from dragon.retrieval.rows import document_rows

if TYPE_CHECKING:
    from peer.link import Connection, LinkServer

log = logging.getLogger(__name__)


class CloudFetch:
    """Finds documents and sends them, as text or with their KV in bfloat16."""

    def __init__(self, server: LinkServer, connection: Connection, asked: messages.Fetch) -> None:
        self._server = server
        self._connection = connection
        self._asked = asked
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; at the end the connection forgets it."""
        self._task = self._connection.start(self._run())

    def receive(self, message: SessionMessage) -> None:
        """Nothing is written together here."""

    def close(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        asked = self._asked
        try:
            await self._send()
        except DragonError as error:
            self._connection.fail(asked.generation, error)
        except Exception:
            log.exception("documents could not be sent")
            self._connection.fail(asked.generation, DragonError("the cloud peer failed"))
        else:
            self._connection.forget(asked.generation)

    async def _send(self) -> None:
        asked, server = self._asked, self._server
        model = server.engine.model
        if asked.weights not in (None, model.weights):
            raise InvalidRequestError(
                "document KV fits one model only: set DRAGON_MODEL and DRAGON_DTYPE alike on both"
            )
        hits = await server.retriever.search(asked.query, asked.top_k)
        # A row as long as the context could not be computed.
        rows, kept = document_rows(server.tokenizer, hits, model.context - 1, raw=asked.raw)
        documents = tuple(
            messages.PublicDocument(
                id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=0.0
            )
            for hit in kept
        )
        fetched = messages.Fetched(generation=asked.generation, documents=documents)
        self._connection.send(messages.encode(fetched))
        if asked.weights is not None:
            for row in rows[: len(kept)]:
                for frame in kv_frames.encode(asked.generation, await self._kv(row)):
                    self._connection.send(frame)

    async def _kv(self, row: Row) -> bytes:
        engine = self._server.engine
        errand = engine.errand(lambda: document_kv(engine.model, row, engine.store).pack())
        return await asyncio.wrap_future(errand)
