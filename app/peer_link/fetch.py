"""Fetching the cloud's documents, to answer alone: the baselines DRCG/Text and DRCG/KV.

For experiments. The text of fetched documents joins that of the device's own in one row. Their KV
cannot: it was computed for a row that begins with the document, and its positions are part of it
(permanently so in models with learned positions). So every fetched KV becomes a row of its own, and
the rows are aggregated on the device alone.
"""

from __future__ import annotations

import asyncio
import itertools
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
    """One fetch: receives the documents, followed by the KV of their rows if it was asked for."""

    def __init__(self, asked: control.Fetch, tokenizer: Tokenizer, model: Backend) -> None:
        self._asked = asked
        self._tokenizer = tokenizer
        self._model = model
        self._documents: Sequence[control.PublicDocument] | None = None
        self._sizes: list[int] = []  # of their KV, in bytes
        self._data = bytearray()
        self.hits: asyncio.Future[list[PublicHit]] = asyncio.get_running_loop().create_future()

    def receive(self, message: Message) -> None:
        if isinstance(message, Bulk):
            if len(self._data) + len(message.data) > sum(self._sizes):
                raise FrameError("more document KV than the documents have")
            self._data += message.data
        elif isinstance(message, control.Fetched) and self._documents is None:
            if len(message.documents) > self._asked.top_k:
                raise FrameError("more documents came than were requested")
            self._documents = message.documents
            self._sizes = self._kv_sizes(message.documents)
        else:
            raise FrameError("only the documents are expected here, and only once")
        if self._documents is None or len(self._data) < sum(self._sizes) or self.hits.done():
            return
        self.hits.set_result(self._found(self._documents))

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        if not self.hits.done():
            self.hits.set_exception(LinkError(message))

    def link_down(self) -> None:
        self.failed("the connection was lost")

    def _kv_sizes(self, documents: Sequence[control.PublicDocument]) -> list[int]:
        if self._asked.weights is None or self._model.kv is None:
            return []
        raw = self._asked.raw
        rows = [self._tokenizer.document_row(each.text, raw=raw) for each in documents]
        if any(len(row) >= self._model.context for row in rows):
            raise FrameError("a fetched document is longer than the context")
        return [self._model.kv.packed_bytes(len(row)) for row in rows]

    def _found(self, documents: Sequence[control.PublicDocument]) -> list[PublicHit]:
        hits = []
        ends = list(itertools.accumulate(self._sizes))
        for number, each in enumerate(documents):
            kv = None
            if ends:
                kv = bytes(self._data[ends[number] - self._sizes[number] : ends[number]])
            meant = relevance(each.score)
            hits.append(PublicHit(number, each.id, each.title, each.text, each.score, meant, kv=kv))
        return hits
