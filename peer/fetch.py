"""Sends documents to a device that answers alone: the baselines DRCG/Text and DRCG/KV."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from dragon.errors import InvalidRequestError
from dragon.inference.rows import Row
from dragon.link import bodies, control
from dragon.link.registry import Message
from dragon.retrieval.prompt_rows import document_rows
from peer.context import Shared


class CloudFetch:
    """Finds documents and sends them, as text or with their KV in bfloat16."""

    def __init__(self, shared: Shared, asked: control.Fetch) -> None:
        self._shared = shared
        self._asked = asked

    @property
    def tokens(self) -> int:
        """0: a search reads no tokens."""
        return 0

    async def messages(self) -> AsyncGenerator[Message, None]:
        """The documents, then their KV. Raises `InvalidRequestError` for KV of another model."""
        asked, shared = self._asked, self._shared
        model = shared.engine.model
        weights = None if model.kv is None else model.weights
        if asked.weights not in (None, weights):
            raise InvalidRequestError(
                "document KV fits one model only: set DRAGON_MODEL and DRAGON_DTYPE alike on both"
            )
        hits = await shared.retriever.search(asked.query, asked.top_k)
        # A row as long as the context cannot be computed.
        rows, kept = document_rows(
            shared.tokenizer, hits, model.context - 1, raw=asked.raw, quotes=False
        )
        documents = tuple(
            control.PublicDocument(
                id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=0.0
            )
            for hit in kept
        )
        yield control.Fetched(documents=documents)
        if asked.weights is not None:
            for row in rows[: len(kept)]:
                for piece in bodies.pieces(await self._kv(row)):
                    yield piece

    async def _kv(self, row: Row) -> bytes:
        """The KV of a row, packed; waits for a slot, as an answer does."""
        engine = self._shared.engine
        assert engine.model.kv is not None
        decoder = engine.open([row], (), limit=0)
        try:
            await asyncio.wrap_future(decoder.prefilled)
            read = partial(engine.model.kv.read, decoder.slots[0], len(row.tokens))
            return (await asyncio.wrap_future(engine.submit_urgent(read))).pack()
        finally:
            engine.close(decoder)
