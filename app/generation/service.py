"""The generation service: from a request to the events of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from app.generation.accumulator import AnswerState
from app.generation.events import Event, Finished, GenerationRequest, PeerChanged
from app.generation.hops import HopRequest, Hops
from app.generation.plan import Plan, Retrieved
from app.generation.retrieval import Retrieval, Searcher
from app.generation.run import Answer
from app.generation.scoring import Scorer
from app.ledger.writer import Account, Ledger
from app.peer_link.client import Link
from app.peer_link.status import PeerStatus
from app.settings import Settings
from dragon.errors import ContextLengthError, DragonError
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.embedder import TextEmbedder
from dragon.sampling.params import Mode

DEFAULT_MAX_TOKENS = 512


@dataclass
class GenerationService:
    """Writes answers with the engine, the person's documents and, if there is a link, the peer.

    Experiments change two fields: `schedule`, who aggregates in speculative aggregation, and
    `catch_up`, without which neither side runs the other's drafts.
    """

    settings: Settings
    tokenizer: Tokenizer
    engine: Engine
    retrieval: Retrieval
    link: Link
    pace: Pace
    ledger: Ledger
    schedule: Schedule = Schedule.GREEDY
    catch_up: bool = True

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
        request = replace(request, query=request.query[-control.MAX_QUERY :])
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
            retrieved = await self.retrieval.find(request, plan.limit, account.assign)
            yield retrieved.found()
            for event in await self._scored_prompt(request, plan, retrieved, account):
                yield event
            yield Finished("length", len(request.conversation), 0)
            return
        passes = Hops(request, self.tokenizer, plan.limit)
        async with self._answer(request, plan, account) as answer:
            first = request.details is not None and request.details.prompt
            if not first:
                answer.ask_peer()
            retrieved = await self.retrieval.find(request, plan.limit, account.assign)
            if first:
                # Told before what takes long, so that a stream can begin meanwhile.
                yield retrieved.found()
                for event in await self._scored_prompt(request, plan, retrieved, account):
                    yield event
                answer.ask_peer()
            answer.open(retrieved)
            async with aclosing(self._pass(answer, request, plan, retrieved, account)) as events:
                async for event in events:
                    for told in passes.take(event):
                        yield told
        while (following := passes.next()) is not None:
            goes_on = False
            async with aclosing(self._go_on(passes, following, account)) as events:
                async for event in events:
                    goes_on = True
                    for told in passes.take(event):
                        yield told
            if not goes_on:
                break
        for event in passes.finish():
            yield event

    async def _pass(
        self,
        answer: Answer,
        request: GenerationRequest,
        plan: Plan,
        retrieved: Retrieved,
        account: Account,
    ) -> AsyncGenerator[Event, None]:
        """Write an answer that was opened; one that is written whole is scored then."""
        written = AnswerState(request)
        # The sources are told before the prefill, so that a stream can begin meanwhile.
        yield await answer.next_event()
        await answer.begin()
        while not answer.over:
            event = await answer.next_event()
            written.take(event)
            if isinstance(event, Finished) and _scored_whole(request):
                scorer = self._scorer(request, account, joint=bool(event.participation))
                yield await scorer.answer(request, plan, retrieved, written)
            yield event

    async def _go_on(
        self, passes: Hops, following: HopRequest, account: Account
    ) -> AsyncGenerator[Event, None]:
        """Write the next pass, if the side that is asked finds what goes on with the text."""
        request = following.request
        plan = self._plan(request)
        retrieved = self.retrieval.bare()
        if following.private:
            hits = following.among(await self.retrieval.search(request))
            retrieved = self.retrieval.rows(request, hits, plan.limit)
            if not retrieved.sources:
                return
        async with self._answer(request, plan, account) as answer:
            if not following.private:
                answer.ask_peer()
                if not following.among(await answer.public_sources()):
                    return
            try:
                answer.open(retrieved)
            except ContextLengthError:
                return
            passes.begin(request)
            if following.private:
                yield PeerChanged(False, 0, "the rest is of your own documents")
            async with aclosing(self._pass(answer, request, plan, retrieved, account)) as events:
                async for event in events:
                    yield event

    def _plan(self, request: GenerationRequest) -> Plan:
        exact = self.settings.exact
        return Plan(
            top_k=self.retrieval.passages(request),
            limit=_limit(request),
            deadline=None if exact else self.settings.first_token_deadline,
            schedule=self.schedule,
            catch_up=self.catch_up and not exact,
            rescore_every=self.settings.rescore_every,
        )

    def _answer(self, request: GenerationRequest, plan: Plan, account: Account) -> Answer:
        link = self.link if _joint(request) else None
        return Answer(
            replace(request, details=None) if _scored_whole(request) else request,
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


def _joint(request: GenerationRequest) -> bool:
    return request.mode.joint and not request.private


def _scored_whole(request: GenerationRequest) -> bool:
    """Whole answers are scored when they are written."""
    return request.mode is Mode.SEQUENCEWISE and request.details is not None


def _limit(request: GenerationRequest) -> int:
    return DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens


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
        retrieval = Retrieval(
            tokenizer, embedder, engine, documents, link, settings.top_k, settings.rescore_every
        )
        yield GenerationService(settings, tokenizer, engine, retrieval, link, pace, ledger)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, DragonError):
            await task
