"""Fetching the cloud's documents, to answer alone: the baselines DRCG/Text and DRCG/KV.

For experiments. The text of fetched documents joins that of the device's own in one row. Their KV
cannot: it was computed for a row that begins with the document, and the positions in it are part of
it (in models with learned positions for good). So every fetched KV becomes a row of its own, and
the rows are aggregated on the device alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.peer_link.client import Link
from dragon.errors import FrameError, LinkError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.retrieval.relevance import Hit, relevance

log = logging.getLogger(__name__)

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class PublicHit(Hit):
    """A passage of the cloud's corpus; `kv` of its row as `KV.pack` makes it, if fetched."""

    kv: bytes | None = None


@dataclass
class Fetcher:
    """Asks the peer for documents, as text or, with `kv`, with the KV of their rows.

    `opened` takes the generation number a fetch gets on the link.
    """

    link: Link
    tokenizer: Tokenizer
    model: LanguageModel
    opened: Callable[[int], None]

    async def fetch(self, query: str, top_k: int, *, raw: bool, kv: bool) -> Sequence[PublicHit]:
        """The documents the peer finds; none without a peer that answers."""
        if not self.link.connected:
            return []
        fetching = _Fetching(self, top_k, raw=raw, kv=kv)
        generation = self.link.open_fetch(fetching)
        self.opened(generation)
        request = control.Fetch(
            query=query,
            top_k=top_k,
            raw=raw,
            weights=self.model.weights if kv else None,
        )
        self.link.send(request, generation)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await fetching.hits
        except (LinkError, TimeoutError) as error:
            log.warning("no documents were fetched: %s", error or "no answer in time")
            return []
        finally:
            self.link.close(generation, "fetched")


class _Fetching:
    """One fetch under way, as the link sees it."""

    def __init__(self, fetcher: Fetcher, top_k: int, *, raw: bool, kv: bool) -> None:
        self._fetcher = fetcher
        self._top_k = top_k
        self._raw = raw
        self._kv = kv
        self._documents: Sequence[control.PublicDocument] | None = None
        self._sizes: list[int] = []
        self._data = bytearray()
        self.hits: asyncio.Future[list[PublicHit]] = asyncio.get_running_loop().create_future()

    def peer_sent_documents(self, fetched: control.Fetched | control.Scoring) -> None:
        """The documents; if there is to be KV, how long theirs are follows."""
        if self._documents is not None or not isinstance(fetched, control.Fetched):
            raise FrameError("documents that were fetched once came again")
        if len(fetched.documents) > self._top_k:
            raise FrameError("more documents came than were asked for")
        self._documents = fetched.documents
        if self._kv:
            tokenizer, model = self._fetcher.tokenizer, self._fetcher.model
            rows = [tokenizer.document_row(d.text, raw=self._raw) for d in fetched.documents]
            if any(len(row) >= model.context for row in rows):
                raise FrameError("a fetched document is longer than the context")
            self._sizes = [model.packed_bytes(len(row)) for row in rows]
        self._finish_if_whole()

    def peer_sent_bulk(self, data: bytes) -> None:
        """More of the documents' KV."""
        if len(self._data) + len(data) > sum(self._sizes):
            raise FrameError("more document KV than the documents have")
        self._data += data
        self._finish_if_whole()

    def peer_failed(self, message: str) -> None:
        """The peer does not send any."""
        if not self.hits.done():
            self.hits.set_exception(LinkError(message))

    def _finish_if_whole(self) -> None:
        if self._documents is None or len(self._data) < sum(self._sizes) or self.hits.done():
            return
        hits = []
        start = 0
        for number, document in enumerate(self._documents):
            kv = None
            if self._kv:
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
