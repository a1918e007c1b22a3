"""The generation service: retrieve, then run; from a request to the events of an answer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version

from app.generation.cloud_view import CloudView, Known
from app.generation.events import (
    Event,
    Finished,
    GenerationRequest,
    NotAsked,
    PeerChanged,
    TextDelta,
)
from app.generation.given import Given, hides
from app.generation.joint_run import JointRun
from app.generation.limits import check, room
from app.generation.plan import Plan, Retrieved
from app.generation.retrieval import Retrieval
from app.generation.rewriting import Rewriter
from app.generation.run import DeviceRun
from app.generation.scoring import Scorer
from app.generation.transcripts import holds_a_chat
from app.ledger.leakage import Kind, Part
from app.ledger.writer import Account, Ledger
from app.peer_link.client import Link
from app.peer_link.status import PeerStatus
from app.settings import Cloud, Settings
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.rows import Begins
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.inference.usual import Usual
from dragon.link import control
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.answers import Answers
from dragon.retrieval.context_prompt import first_number
from dragon.sampling.accountant import Budget
from dragon.sampling.params import Mode
from dragon.sampling.role import Role

log = logging.getLogger(__name__)

# A budget is spent by this many tokens in which the passages have a part, or by all tokens of a
# short text.
BOUNDED_TOKENS = 64


@dataclass
class GenerationService:
    """Writes answers with the engine, the user's documents and, if there is a link, the peer.

    Experiments change three fields: `schedule`, which side aggregates in speculative aggregation;
    `catch_up`, without which neither side runs the other's drafts; and `certificates`, without
    which no token is committed before the cloud's distribution is here.
    """

    settings: Settings
    tokenizer: Tokenizer
    engine: Engine
    retrieval: Retrieval
    link: Link
    pace: Pace
    ledger: Ledger
    cloud_view: CloudView
    rewriter: Rewriter
    usual: Usual = field(default_factory=Usual)
    schedule: Schedule = Schedule.GREEDY
    catch_up: bool = True
    certificates: bool = True

    @property
    def model_name(self) -> str:
        """The model's name in `/v1/models`."""
        return self.engine.model.name

    @property
    def quotes(self) -> bool:
        """Whether questions are answered by quotes."""
        return self.retrieval.answers.quotes

    @property
    def quotes_alone(self) -> bool:
        """Whether the model writes nothing but quotes."""
        return self.retrieval.answers is Answers.QUOTES

    def fingerprint(self, mode: Mode) -> str:
        """Identify what writes in a mode: model, release, precision and settings.

        Two answers with the same fingerprint, request, seed, documents and participation of the
        cloud have the same text.
        """
        settings = self.settings
        parts = (
            version("dragon-rag"),
            self.engine.model.weights,
            self.tokenizer.fingerprint,
            self.retrieval.answers.value,
            mode.value,
            str(settings.exact),
            str(settings.rescore_every),
            str(settings.least_cloud_weight),
        )
        return "fp_" + hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]

    @property
    def top_k(self) -> int:
        """How many passages a side uses in a chat that sets no number."""
        return self.settings.top_k or self.retrieval.answers.passages

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
        """The status of the link to the cloud peer."""
        return self.link.status

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        """Write one answer; closing the generator frees both sides.

        Raises `InvalidRequestError` before the first event, `DragonError` if the model fails.
        """
        # The link limits the query: both sides search with the same text if they can.
        most, prompted = control.MAX_QUERY, request.query
        request = replace(request, query=request.query[-most:], cloud_query=request.asked[-most:])
        self.check(request)
        question = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        in_one_row = self.retrieval.in_one_row(request)
        needless = await self.retrieval.needless(request)
        # What of a chat in one text was private is not known: it stays, unless the person sends it.
        told = [message.content for message in request.messages if message.role == "system"]
        quoting = request.cloud is Cloud.WHEN_NEEDED and any(
            map(holds_a_chat, [prompted] if request.raw else told)
        )
        if needless or quoting:
            request = replace(request, cloud=Cloud.NEVER)
        elif in_one_row and self.retrieval.asks(request):
            request = self._alone(await self.rewriter.alone(request))
        with self.ledger.begin(
            request.id, self.tokenizer.decode, private=request.private
        ) as account:
            found: Retrieved | None = None
            if needless:
                found = self.retrieval.everyday(request)
            if needless or quoting:
                yield NotAsked()
            if request.joint and not self.ledger.writable:
                request = replace(request, cloud=Cloud.NEVER)
                yield PeerChanged(False, 0, "nothing may leave, since the ledger cannot be written")
            if request.cloud is Cloud.WHEN_NEEDED and request.mode.joint:
                found = await self.retrieval.find(request, request.limit)
                if request.judged and found.answers:
                    request = replace(request, cloud=Cloud.NEVER)
                    yield NotAsked()
            if in_one_row and request.joint:
                request = self._alone(await self.rewriter.alone_for_cloud(request))
            if request.joint and hides(request) and not self.link.connected:
                # Without a peer to write with, the whole conversation may be used.
                request = replace(request, cloud=Cloud.NEVER)
                yield PeerChanged(False, 0, self.link.status.away)
            if request.joint and hides(request):
                found, given = None, _writable(request)
                if request.cloud is Cloud.WHEN_NEEDED and request.judged:
                    # They may answer in the cloud's wording, though not in the whole chat's.
                    found = await self.retrieval.find(given, request.limit)
                    if found.answers:
                        request = replace(given, cloud=Cloud.NEVER)
                        yield NotAsked()
            self._name(request, account)
            if request.max_tokens == 0:
                found = found or await self.retrieval.find(_writable(request), 0)
                async for event in self._prompt(request, found):
                    yield event
                yield Finished(
                    "length", request.prompt_tokens(self.tokenizer), 0, stats=account.sent
                )
                return
            budget: Budget | None = None
            if request.epsilon is not None and request.joint:
                request, found, budget = await self._bounded(
                    _writable(request), request.epsilon, account
                )
            async for event in self._written(request, found, budget, account, question):
                yield event

    async def _written(
        self,
        request: GenerationRequest,
        found: Retrieved | None,
        budget: Budget | None,
        account: Account,
        question: str,
    ) -> AsyncGenerator[Event, None]:
        """An answer from what was found, or else from what is retrieved now."""
        if request.details is not None and request.details.prompt:
            found = found or await self.retrieval.find(_writable(request), request.limit)
            async for event in self._prompt(request, found):
                yield event
        run, texts = self._run(request, budget), list[str]()
        async with self._recorded(run, account, question, texts):
            found = found or await self.retrieval.find(_writable(request), request.limit)
            run.write(found)
            async for event in run:
                if isinstance(event, TextDelta):
                    texts.append(event.text)
                if isinstance(event, Finished):
                    end = event
                else:
                    yield event
        if _scored_whole(request):
            scorer = self._scorer(request, joint=bool(run.session.intervals()))
            yield await scorer.answer(request, self._plan(request), found, run.answer)
        yield replace(end, stats={**end.stats, **account.sent})

    def _alone(self, request: GenerationRequest) -> GenerationRequest:
        """The chat that the answer is written from; where a line is quoted, the question alone."""
        if not self.retrieval.quotes_a_line(request):
            return request
        own, known = (
            tuple(self.tokenizer.conversation([Message("user", question)]))
            for question in (request.query, request.asked)
        )
        return replace(
            request,
            conversation=own,
            begins=Begins.TURNS,
            cloud_conversation=None if known == own else known,
            parts=tuple(
                part for part in request.parts if part == Part(Kind.QUESTION, request.asked)
            ),
            prompt=request.prompt or (request.begins, request.conversation),
        )

    def _name(self, request: GenerationRequest, account: Account) -> None:
        """Record in the ledger what the cloud is asked with, if it is asked."""
        if request.joint:
            account.given(Given.of(request).parts(self.tokenizer.decode))
        elif request.mode.fetches and not request.private:
            account.given([Part(Kind.SEARCH, request.asked)])

    async def _bounded(
        self, request: GenerationRequest, epsilon: float, account: Account
    ) -> tuple[GenerationRequest, Retrieved, Budget]:
        """Prepare an answer with a budget, and reserve the budget for its passages.

        Everything the cloud must not learn is left out, including the passages' length. Raises
        `InvalidRequestError` if a passage has nothing left.
        """
        assert request.epsilon is not None
        room = self.context_length - len(request.conversation)
        limit = max(1, min(request.limit, room // 2))
        request = replace(request, max_tokens=limit)
        found = await self.retrieval.find(request, limit)
        budget = Budget.of(epsilon, min(limit, BOUNDED_TOKENS))
        passages = found.passages
        limit_each = self.settings.passage_epsilon
        await self.ledger.spending.reserve(passages, budget, limit_each)
        account.bounded(budget, passages)
        return request, found.referring(self.retrieval.without(request).tokens), budget

    async def _prompt(
        self, request: GenerationRequest, retrieved: Retrieved
    ) -> AsyncGenerator[Event, None]:
        """The device's sources, at once, and the prompt's tokens if they are to be scored."""
        yield retrieved.found()
        if request.details is not None and request.details.prompt:
            scorer = self._scorer(request, joint=request.joint)
            for event in await scorer.prompt(request, self._plan(request), retrieved):
                yield event

    def _plan(self, request: GenerationRequest) -> Plan:
        exact, top_k = self.settings.exact, self.retrieval.passages(request)
        cited = first_number(Role.CLOUD, top_k) if self.retrieval.cites(request) else None
        return Plan(
            top_k=top_k,
            limit=request.limit,
            deadline=None if exact or request.wait else self.settings.first_token_deadline,
            schedule=self.schedule,
            catch_up=self.catch_up and not exact,
            rescore_every=self.settings.rescore_every,
            certificates=self.certificates,
            least_weight=0.0 if exact else self.settings.least_cloud_weight,
            cloud_citations=cited,
        )

    def _run(self, request: GenerationRequest, budget: Budget | None) -> DeviceRun:
        written = replace(request, details=None) if _scored_whole(request) else request
        make = (
            partial(JointRun, Given.of(written), link=self.link)
            if request.joint
            else partial(DeviceRun, written)
        )
        return make(
            self._plan(request),
            budget=budget,
            engine=self.engine,
            tokenizer=self.tokenizer,
            pace=self.pace,
        )

    @asynccontextmanager
    async def _recorded(
        self, run: DeviceRun, account: Account, question: str, texts: Sequence[str]
    ) -> AsyncIterator[None]:
        """Enter a run; on leaving it, note what the cloud knows of the `texts` written."""
        try:
            async with run:
                yield
        finally:
            private = [(each.id, self.tokenizer.encode(each.text)) for each in run.answer.private]
            told, text = run.session.rule.told, "".join(texts)
            account.wrote(private, run.session.committed, told)
            ends = self.tokenizer.end_ids
            tokens = [each for each in run.answer.tokens[:told] if each not in ends]
            known = min(len(text), len(self.tokenizer.decode(tokens)))
            self.cloud_view.wrote(question, text, Known(run.asked, ((0, known),) if known else ()))
            account.settle()

    def _scorer(self, request: GenerationRequest, *, joint: bool) -> Scorer:
        top = 0 if request.details is None else request.details.top
        return Scorer(self.engine, self.tokenizer, self.link if joint else None, top)

    def room(self, request: GenerationRequest) -> int:
        """As `limits.room`."""
        return room(self.retrieval, request)

    def check(self, request: GenerationRequest) -> None:
        """As `limits.check`."""
        check(self.retrieval, request)


def _writable(request: GenerationRequest) -> GenerationRequest:
    """The request that an answer may be written from: the cloud's version, if it may take part."""
    return Given.of(request).request if request.joint else request


def _scored_whole(request: GenerationRequest) -> bool:
    """Whether a finished answer is scored as a whole: a sequencewise one with details."""
    return request.mode is Mode.SEQUENCEWISE and request.details is not None
