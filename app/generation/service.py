"""The generation service: retrieve, run, next hop; from a request to the events of an answer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version

from app.generation.cloud_view import CloudView
from app.generation.events import Event, Finished, GenerationRequest, NotAsked, PeerChanged
from app.generation.given import Given, hides
from app.generation.hops import HopRequest, Hops
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
from dragon.errors import ContextLengthError
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

# A budget is spent by this many tokens that the passages have a part in, or by all of a short text.
BOUNDED_TOKENS = 64


@dataclass
class GenerationService:
    """Writes answers with the engine, the person's documents and, if there is a link, the peer.

    Experiments change three fields: `schedule`, who aggregates in speculative aggregation, and
    `catch_up`, without which neither side runs the other's drafts; `certificates`, without which no
    token is taken before the cloud's distribution is here.
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
        """What `/v1/models` calls the model."""
        return self.engine.model.name

    @property
    def quotes(self) -> bool:
        """Whether the model answers by quotes alone."""
        return self.retrieval.answers is Answers.QUOTES

    def fingerprint(self, mode: Mode) -> str:
        """Names what writes here in a mode: model, release, precision and settings.

        Of two answers with the same one, the same request, seed, documents and participation of
        the cloud, the text is the same.
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
        """Write one answer, hop by hop; closing the generator frees both sides.

        Raises `InvalidRequestError` before the first event, `DragonError` when the model fails.
        """
        # No side searches by more than the link takes: both search by the same text if they can.
        most, leaning, prompted = control.MAX_QUERY, request.query_alone, request.query
        request = replace(
            request,
            query=request.query[-most:],
            query_alone=None if leaning is None else leaning[-most:],
            cloud_query=request.asked[-most:],
        )
        self.check(request)
        question = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        writes = self.retrieval.writes(request)
        needless = await self.retrieval.needless(request)
        # What of a chat in one text was private is not known: it stays, unless the person sends it.
        quoting = request.cloud is Cloud.WHEN_NEEDED and request.raw and holds_a_chat(prompted)
        if writes or needless:
            # What a sentence leaves open is asked of quotes only.
            request = replace(request, hops=0)
        if needless or quoting:
            request = replace(request, cloud=Cloud.NEVER)
        elif writes and self.retrieval.asks(request):
            request = self._alone(await self.rewriter.alone(request))
        hops = Hops(request, self.tokenizer, request.limit)
        hop: HopRequest | None = None
        following: Sequence[HopRequest] = ()
        with self.ledger.begin(
            request.id, self.tokenizer.decode, private=request.private
        ) as account:
            found: Retrieved | None = None
            if needless:
                found = self.retrieval.everyday(request)
            if needless or quoting:
                for event in hops.take(NotAsked()):
                    yield event
            if request.joint and not self.ledger.writable:
                request = replace(request, cloud=Cloud.NEVER)
                unrecorded = "nothing may leave, since the ledger cannot be written"
                for event in hops.take(PeerChanged(False, 0, unrecorded)):
                    yield event
            if request.cloud is Cloud.WHEN_NEEDED and request.mode.joint:
                found = await self.retrieval.find(request, request.limit)
                if request.judged and found.answers:
                    request = replace(request, cloud=Cloud.NEVER)
                    for event in hops.take(NotAsked()):
                        yield event
            if writes and request.joint:
                request = self._alone(await self.rewriter.alone_for_cloud(request))
            if request.joint and hides(request) and not self.link.connected:
                # Whom nobody writes with may write from all.
                request = replace(request, cloud=Cloud.NEVER)
                for event in hops.take(PeerChanged(False, 0, self.link.status.away)):
                    yield event
            if request.joint and hides(request):
                found = None
            if request.max_tokens == 0:
                self._name(request, account)
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
            while True:
                self._name(request, account)
                run = self._run(request, budget)
                if request.details is not None and request.details.prompt:
                    found = found or await self.retrieval.find(_writable(request), request.limit)
                    async for event in self._prompt(request, found):
                        yield event
                async with self._recorded(run, account, hops, hop, question):
                    if (found := await self._start(run, request, hop, found)) is not None:
                        for event in hops.begin(hop) if hop is not None else ():
                            yield event
                        async for event in run:
                            for placed in hops.take(event):
                                yield placed
                    elif hop is not None and not hop.private and not run.replied:
                        for event in hops.take(NotAsked(request.query)):
                            yield event
                if found is not None:
                    following = hops.next()
                if found is not None and _scored_whole(request):
                    scorer = self._scorer(request, joint=bool(run.session.intervals()))
                    details = await scorer.answer(request, self._plan(request), found, run.answer)
                    for event in hops.take(details):
                        yield event
                if not following:
                    break
                hop, *following = following
                if not hop.agreed:
                    for event in hops.take(NotAsked(hop.request.query)):
                        yield event
                    break
                request, found = hop.request, None
            for event in hops.finish():
                if isinstance(event, Finished):
                    event = replace(event, stats={**event.stats, **account.sent})
                yield event

    def _alone(self, request: GenerationRequest) -> GenerationRequest:
        """A chat as it is written from: by the built-in writer, from its question alone.

        A small model takes up its own mistakes from a conversation.
        """
        if not self.retrieval.from_lines(request):
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
        """Name in the ledger what the cloud is asked with, if it is."""
        if request.joint:
            account.given(Given.of(request).parts(self.tokenizer.decode))
        elif request.mode.fetches and not request.private:
            account.given([Part(Kind.SEARCH, request.asked)])

    async def _bounded(
        self, request: GenerationRequest, epsilon: float, account: Account
    ) -> tuple[GenerationRequest, Retrieved, Budget]:
        """Prepare an answer with a budget, and reserve that for its passages.

        Whatever the cloud must not learn anything of stays out, the passages' length, too. Raises
        `InvalidRequestError` where a passage has nothing left.
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

    async def _start(
        self,
        run: DeviceRun,
        request: GenerationRequest,
        hop: HopRequest | None,
        found: Retrieved | None,
    ) -> Retrieved | None:
        """Start a run with its rows: those found already, or what is retrieved now.

        None, and nothing is started, if a hop finds no passage that continues the text, or no room.
        """
        if hop is None:
            found = found or await self.retrieval.find(_writable(request), request.limit)
        elif hop.private:
            hits = hop.among(await self.retrieval.search(request))
            found = self.retrieval.rows(request, hits, request.limit)
            if not found.sources:
                return None
        else:
            found = self.retrieval.bare()
            if not hop.among(await run.public_sources()):
                return None
        try:
            run.write(found)
        except ContextLengthError:
            if hop is None:
                raise
            return None
        return found

    def _plan(self, request: GenerationRequest) -> Plan:
        exact, top_k = self.settings.exact, self.retrieval.passages(request)
        cited = first_number(Role.CLOUD, top_k) if self.retrieval.writes(request) else None
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
        self, run: DeviceRun, account: Account, hops: Hops, hop: HopRequest | None, question: str
    ) -> AsyncIterator[None]:
        """Enter a run; once it is left, note what the cloud knows of what was written."""
        try:
            async with run:
                yield
        finally:
            encode = self.tokenizer.encode
            private = [(source.id, encode(source.text)) for source in run.answer.private]
            told = run.session.rule.told
            brought = encode(" ".join(hop.follow_up.brought)) if hop and run.asked else ()
            account.wrote(private, run.session.committed, told, brought)
            hops.known(told, asked=run.asked and hop is None)
            self.cloud_view.wrote(question, *hops.as_known())
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
    """A request as an answer to it may be written: where the cloud may take part, as it has it."""
    return Given.of(request).request if request.joint else request


def _scored_whole(request: GenerationRequest) -> bool:
    """Sequencewise answers are scored once they are finished."""
    return request.mode is Mode.SEQUENCEWISE and request.details is not None
