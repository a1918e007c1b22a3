"""Fetching the cloud's documents, to answer alone: the baselines DRCG/Text and DRCG/KV.

For experiments. The text of fetched documents joins that of the device's own in one row. Their KV
cannot: it was computed for a row that begins with the document, and its positions are part of it
(permanently so in models with learned positions). So every fetched KV becomes a row of its own, and
the rows are aggregated on the device alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.peer_link.client import Link
from app.peer_link.status import Refusal
from dragon.errors import FrameError, LinkError
from dragon.inference.backends.backend import Backend
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.bodies import Bulk
from dragon.link.registry import Message
from dragon.retrieval.relevance import Hit, relevance

log = logging.getLogger(__name__)

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class PublicHit(Hit):
    """A passage of the cloud's corpus; `kv` of its row in the form of `KV.pack`, if fetched."""

    kv: bytes | None = None


async def fetch(
    link: Link, answer: str, asked: control.Fetch, tokenizer: Tokenizer, model: Backend
) -> Sequence[PublicHit]:
    """The documents that the peer finds for an answer; none if the peer does not reply.

    With `asked.weights` they come with the KV of their rows.
    """
    if not link.connected:
        return []
    fetching = _Fetching(asked, tokenizer, model)
    stream = link.open(fetching, answer)
    link.send(asked, stream)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await fetching.hits
    except (LinkError, TimeoutError) as error:
        log.warning("no documents were fetched: %s", error or "no answer in time")
        return []
    finally:
        link.close(stream, "fetched")


class _Fetching:
    """One fetch: receives what the peer sends for it."""

    def __init__(self, asked: control.Fetch, tokenizer: Tokenizer, model: Backend) -> None:
        self._asked = asked
        self._tokenizer = tokenizer
        self._model = model
        self._kv = None if asked.weights is None else model.kv
        self._documents: Sequence[control.PublicDocument] | None = None
        self._sizes: list[int] = []
        self._data = bytearray()
        self.hits: asyncio.Future[list[PublicHit]] = asyncio.get_running_loop().create_future()

    def receive(self, message: Message) -> None:
        """Handle the documents, followed by their KV if requested."""
        if isinstance(message, Bulk):
            self._take_kv(message.data)
        elif isinstance(message, control.Fetched) and self._documents is None:
            self._take_documents(message.documents)
        else:
            raise FrameError("only the documents are expected here, and only once")
        self._finish_if_whole()

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        """The peer sends none."""
        if not self.hits.done():
            self.hits.set_exception(LinkError(message))

    def link_down(self) -> None:
        """Nothing more comes."""
        self.failed("the connection was lost")

    def _take_documents(self, documents: Sequence[control.PublicDocument]) -> None:
        if len(documents) > self._asked.top_k:
            raise FrameError("more documents came than were requested")
        self._documents = documents
        if self._kv is not None:
            raw = self._asked.raw
            rows = [self._tokenizer.document_row(each.text, raw=raw) for each in documents]
            if any(len(row) >= self._model.context for row in rows):
                raise FrameError("a fetched document is longer than the context")
            self._sizes = [self._kv.packed_bytes(len(row)) for row in rows]

    def _take_kv(self, data: bytes) -> None:
        if len(self._data) + len(data) > sum(self._sizes):
            raise FrameError("more document KV than the documents have")
        self._data += data

    def _finish_if_whole(self) -> None:
        if self._documents is None or len(self._data) < sum(self._sizes) or self.hits.done():
            return
        hits = []
        start = 0
        for number, document in enumerate(self._documents):
            kv = None
            if self._kv is not None:
                kv = bytes(self._data[start : start + self._sizes[number]])
                start += len(kv)
            hits.append(
                PublicHit(
                    id=number,
                    document=document.id,
                    title=document.title,
                    text=document.text,
                    score=document.score,
                    relevance=relevance(document.score),
                    vector=None,
                    kv=kv,
                )
            )
        self.hits.set_result(hits)
