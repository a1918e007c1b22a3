"""The generation service: from a request to the events of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from app.answer import Answer, Plan, Retrieved
from app.events import Event, GenerationRequest, PeerStatus, Source
from app.fetch import Fetcher, PublicHit
from app.link import Link
from app.search import EVERYTHING, DocumentHit, Scope
from app.settings import Settings
from dragon.decoder import Row, room_for_document
from dragon.engine import Engine
from dragon.errors import ContextLengthError, DragonError
from dragon.link.messages import MAX_QUERY
from dragon.pacing import Pace
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.relevance import Hit
from dragon.retrieval.rescoring import rescoring
from dragon.retrieval.rows import document_rows
from dragon.sampling import Mode
from dragon.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 512


class Searcher(Protocol):
    """Where private documents are found."""

    async def search(self, query: str, k: int, scope: Scope = EVERYTHING) -> Sequence[DocumentHit]:
        """At most `k` relevant chunks of the documents in scope, the best first."""


@dataclass
class GenerationService:
    """Writes answers with the engine, the person's documents and, if there is a link, the peer."""

    settings: Settings
    tokenizer: Tokenizer
    embedder: TextEmbedder
    engine: Engine
    documents: Searcher
    link: Link
    pace: Pace

    @property
    def model_name(self) -> str:
        """What `/v1/models` calls the model."""
        return self.engine.model.name

    @property
    def context_length(self) -> int:
        """Tokens the model can hold, prompt and answer together."""
        return self.engine.model.context

    @property
    def ready(self) -> bool:
        """Whether the engine runs."""
        return self.engine.alive

    @property
    def peer_state(self) -> PeerStatus:
        """How the link to the cloud peer stands."""
        return self.link.status

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        """Write one answer; closing the generator frees both sides.

        Raises `InvalidRequestError` before the first event, `DragonError` when the model fails.
        """
        # One text for both sides: relevance to different ones could not be compared.
        request = replace(request, query=request.query[-MAX_QUERY:])
        self._check(request)
        exact = self.settings.exact
        answer = Answer(
            request,
            Plan(
                top_k=self._top_k(request),
                limit=request.max_tokens or DEFAULT_MAX_TOKENS,
                deadline=None if exact else self.settings.first_token_deadline,
                catch_up=request.catch_up and not exact,
                rescore_every=self.settings.rescore_every,
            ),
            engine=self.engine,
            tokenizer=self.tokenizer,
            link=self.link if request.mode.joint and not request.private else None,
            pace=self.pace,
        )
        async with answer:
            answer.ask_peer()
            await answer.begin(await self._retrieve(request))
            while True:
                event = await answer.next_event()
                yield event
                if answer.over:
                    return

    def _check(self, request: GenerationRequest) -> None:
        asked = len(request.conversation) + (request.max_tokens or 1)
        if asked > self.context_length:
            raise ContextLengthError(
                f"the model's context is {self.context_length} tokens, but the prompt has "
                f"{len(request.conversation)} and {request.max_tokens or 1} were asked for: "
                "shorten the prompt or lower max_tokens"
            )

    def _top_k(self, request: GenerationRequest) -> int:
        wanted = self.settings.top_k if request.top_k is None else request.top_k
        return min(wanted, self.engine.model.cache.slots)

    async def _retrieve(self, request: GenerationRequest) -> Retrieved:
        """Private documents as rows, only those that leave room for an answer."""
        own, fetched = await asyncio.gather(self._search(request), self._fetch(request))
        hits = sorted([*own, *fetched], key=lambda hit: hit.relevance, reverse=True)
        hits = hits[: self.engine.model.cache.slots]
        room = room_for_document(
            self.context_length, len(request.conversation), request.max_tokens or DEFAULT_MAX_TOKENS
        )
        if request.mode in (Mode.CONTEXT, Mode.CONTEXT_TEXT):
            found = self._concatenated(request, hits, room)
            return replace(found, nothing_relevant=self._in_vain(request, own))
        rows, kept = document_rows(self.tokenizer, hits, room, raw=request.raw)
        for number, hit in enumerate(kept):
            if isinstance(hit, PublicHit):
                rows[number] = replace(rows[number], kv=hit.kv)
        every = self.settings.rescore_every
        again = rescoring(self.embedder, self.tokenizer, request.query, rows, every)
        return Retrieved(rows, [_source(hit) for hit in kept], again, self._in_vain(request, own))

    def _in_vain(self, request: GenerationRequest, own: Sequence[DocumentHit]) -> bool:
        return bool(self._top_k(request)) and not own

    async def _search(self, request: GenerationRequest) -> Sequence[DocumentHit]:
        k = self._top_k(request)
        if not k or not request.query:
            return []
        scope = Scope(request.documents, request.collections)
        return await self.documents.search(request.query, k, scope)

    async def _fetch(self, request: GenerationRequest) -> Sequence[PublicHit]:
        """The cloud's documents, where the mode has them fetched."""
        if request.private or not request.mode.fetches:
            return []
        fetcher = Fetcher(self.link, self.tokenizer, self.engine.model)
        kv = request.mode is Mode.CONTEXT_KV
        return await fetcher.fetch(request.query, self._top_k(request), raw=request.raw, kv=kv)

    def _concatenated(
        self, request: GenerationRequest, hits: Sequence[Hit], room: int
    ) -> Retrieved:
        """Context aggregation: all documents before the question, in one row."""
        while hits:
            text = "\n\n".join(hit.text for hit in hits)
            tokens = self.tokenizer.document_row(text, raw=request.raw)
            if len(tokens) <= room:
                row = Row(tuple(tokens), hits[0].relevance)
                return Retrieved([row], [_source(hit) for hit in hits])
            hits = hits[:-1]
        rows, _ = document_rows(self.tokenizer, hits, room, raw=request.raw)
        return Retrieved(rows, [])


def _source(hit: Hit) -> Source:
    source = Source("public", hit.document, hit.title, hit.text, score=hit.score, weight=0.0)
    if isinstance(hit, DocumentHit):
        return replace(source, side="private", page=hit.page, start=hit.start, end=hit.end)
    return source


@asynccontextmanager
async def open_generation(
    settings: Settings,
    tokenizer: Tokenizer,
    embedder: TextEmbedder,
    engine: Engine,
    documents: Searcher,
    link: Link,
    pace: Pace,
) -> AsyncIterator[GenerationService]:
    """The service with its link running; the engine is the caller's, which runs the embedder."""
    task = asyncio.create_task(link.run(), name="link")
    try:
        yield GenerationService(settings, tokenizer, embedder, engine, documents, link, pace)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, DragonError):
            await task
