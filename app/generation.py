"""The generation service: from a request to the events of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from app.answer import Answer
from app.choices import Choice
from app.events import (
    Event,
    Finished,
    GenerationRequest,
    PeerStatus,
    Source,
)
from app.fetch import Fetcher, PublicHit
from app.ledger import Account, Ledger
from app.link import Link
from app.plan import Plan, Retrieved
from app.scoring import Scorer
from app.search import EVERYTHING, DocumentHit, Scope
from app.settings import Settings
from dragon.decoder import Row, room_for_document
from dragon.engine import Engine
from dragon.errors import ContextLengthError, DragonError
from dragon.link import messages
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
    ledger: Ledger

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
        request = replace(request, query=request.query[-messages.MAX_QUERY :])
        self.check(request)
        account = self.ledger.begin(request.id, private=request.private)
        try:
            async with aclosing(self._write(request, account)) as events:
                async for event in events:
                    yield event
        finally:
            account.end()

    async def _write(
        self, request: GenerationRequest, account: Account
    ) -> AsyncGenerator[Event, None]:
        plan = self._plan(request)
        if request.max_tokens == 0:
            retrieved = await self._retrieve(request, account)
            yield retrieved.found()
            for event in await self._scored_prompt(request, plan, retrieved, account):
                yield event
            yield Finished("length", len(request.conversation), 0)
            return
        # Whole answers are scored when they are written.
        whole = request.mode is Mode.SEQUENCEWISE and request.details is not None
        written = Choice(0, request)
        now = replace(request, details=None) if whole else request
        async with self._answer(now, plan, account) as answer:
            first = request.details is not None and request.details.prompt
            if not first:
                answer.ask_peer()
            retrieved = await self._retrieve(request, account)
            if first:
                # Told before what takes long, so that a stream can begin meanwhile.
                yield retrieved.found()
                for event in await self._scored_prompt(request, plan, retrieved, account):
                    yield event
                answer.ask_peer()
            answer.open(retrieved)
            yield await answer.next_event()
            await answer.begin()
            while not answer.over:
                event = await answer.next_event()
                written.take(event)
                if isinstance(event, Finished) and whole:
                    jointly = bool(event.participation)
                    scorer = self._scorer(request, account, joint=jointly)
                    yield await scorer.answer(request, plan, retrieved, written)
                yield event

    def _plan(self, request: GenerationRequest) -> Plan:
        exact = self.settings.exact
        return Plan(
            top_k=self._top_k(request),
            limit=_limit(request),
            deadline=None if exact else self.settings.first_token_deadline,
            catch_up=request.catch_up and not exact,
            rescore_every=self.settings.rescore_every,
        )

    def _answer(self, request: GenerationRequest, plan: Plan, account: Account) -> Answer:
        link = self.link if _joint(request) else None
        return Answer(
            request,
            plan,
            engine=self.engine,
            tokenizer=self.tokenizer,
            link=link,
            pace=self.pace,
            account=account,
        )

    async def _scored_prompt(
        self, request: GenerationRequest, plan: Plan, retrieved: Retrieved, account: Account
    ) -> Sequence[Event]:
        """What is told of the prompt's tokens before any answer, if that was asked for."""
        if request.details is None or not request.details.prompt:
            return ()
        scorer = self._scorer(request, account, joint=_joint(request))
        return await scorer.prompt(request, plan, retrieved)

    def _scorer(self, request: GenerationRequest, account: Account, *, joint: bool) -> Scorer:
        top = 0 if request.details is None else request.details.top
        link = self.link if joint else None
        return Scorer(self.engine, self.tokenizer, link, top, account.assign)

    def check(self, request: GenerationRequest) -> None:
        """Raises `ContextLengthError` unless prompt and answer fit the context together."""
        prompt = len(self.tokenizer.bare_row(raw=request.raw)) + len(request.conversation)
        answer = 1 if request.max_tokens is None else request.max_tokens
        if prompt + answer > self.context_length:
            raise ContextLengthError(
                f"This model's maximum context length is {self.context_length} tokens; however, "
                f"you requested {prompt + answer} tokens ({prompt} in your prompt, {answer} for "
                "the completion). Please shorten the prompt or lower max_tokens.",
                param="prompt" if request.raw else "messages",
            )

    def _top_k(self, request: GenerationRequest) -> int:
        wanted = self.settings.top_k if request.top_k is None else request.top_k
        return min(wanted, self.engine.model.cache.slots)

    async def _retrieve(self, request: GenerationRequest, account: Account) -> Retrieved:
        """Private documents as rows, only those that leave room for an answer."""
        fetching = self._fetch(request, account)
        own, fetched = await asyncio.gather(self._search(request), fetching)
        hits = sorted([*own, *fetched], key=lambda hit: hit.relevance, reverse=True)
        hits = hits[: self.engine.model.cache.slots]
        room = room_for_document(self.context_length, len(request.conversation), _limit(request))
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

    async def _fetch(self, request: GenerationRequest, account: Account) -> Sequence[PublicHit]:
        """The cloud's documents, where the mode has them fetched."""
        if request.private or not request.mode.fetches:
            return []
        fetcher = Fetcher(self.link, self.tokenizer, self.engine.model, account.assign)
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


def _joint(request: GenerationRequest) -> bool:
    return request.mode.joint and not request.private


def _limit(request: GenerationRequest) -> int:
    return DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens


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
    ledger: Ledger,
) -> AsyncIterator[GenerationService]:
    """The service with its link running; the engine is the caller's, which runs the embedder."""
    task = asyncio.create_task(link.run(), name="link")
    try:
        yield GenerationService(
            settings, tokenizer, embedder, engine, documents, link, pace, ledger
        )
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, DragonError):
            await task
