"""The generation service, which turns a request into the events of an answer."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version

from app.generation.cloud_view import CloudView, Known
from app.generation.deciding import Decider, Decision
from app.generation.events import Event, Finished, GenerationRequest, TextDelta
from app.generation.given import Given
from app.generation.joint_run import JointRun
from app.generation.plan import Plan
from app.generation.retrieval import Retrieval
from app.generation.run import DeviceRun
from app.generation.scoring import Scorer
from app.ledger.leakage import Part, PartKind
from app.ledger.writer import Account, Ledger
from app.peer_link.client import Link
from app.peer_link.status import PeerStatus
from app.settings import Settings
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.backends.backend import WHOLE_ANSWERS, require_full
from dragon.inference.choice import DefaultSampling
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.localizable import localizable
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.prompt_rows import Answers, first_number
from dragon.sampling.params import Mode
from dragon.sampling.privacy import Budget
from dragon.sampling.role import Role

# A budget is split among this many tokens that need one, or among all tokens of a shorter answer.
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
    decider: Decider
    default_sampling: DefaultSampling = field(default_factory=DefaultSampling)
    schedule: Schedule = Schedule.GREEDY
    catch_up: bool = True
    certificates: bool = True

    @property
    def model_name(self) -> str:
        return self.engine.model.name

    @property
    def quotes(self) -> bool:
        return self.retrieval.answers.quotes

    @property
    def quotes_alone(self) -> bool:
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
            str(self.retrieval.slope),
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
        return self.engine.alive

    @property
    def peer_state(self) -> PeerStatus:
        return self.link.status

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        """Write one answer; closing the generator frees both sides.

        Raises `InvalidRequestError` before the first event, `DragonError` if the model fails.
        """
        self.check(request)
        question = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        decode = self.tokenizer.decode
        with self.ledger.begin(request.id, decode, private=request.private) as account:
            decided = await self.decider.decide(request)
            for reason in decided.events:
                yield reason
            self._name(decided.request, account)
            if decided.found is not None and decided.request.premise:
                account.sources.update(source.id for source in decided.found.sources)
            decided, budget = await self._bounded(decided, account)
            request, found = decided.request, decided.found
            scored = request.details is not None and request.details.prompt
            if request.max_tokens == 0 or scored:
                found = found or await self.retrieval.find(_writable(request), request.limit)
                yield found.found()
            if found is not None and scored:
                scorer = self._scorer(request, joint=request.joint)
                for scores in await scorer.prompt(request, self._plan(request), found):
                    yield scores
            if request.max_tokens == 0:
                prompt = request.prompt_tokens(self.tokenizer)
                yield Finished("length", prompt, 0, stats=account.sent)
                return
            run, texts = self._run(request, self._plan(request, budget)), list[str]()
            async with self._recorded(run, account, question, texts, request.premise):
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

    def _name(self, request: GenerationRequest, account: Account) -> None:
        """Record the user's words that the cloud is asked with, if it is asked."""
        if request.joint:
            account.given(Given.of(request).parts(self.tokenizer.decode))
        elif request.mode.fetches and not request.private:
            account.given([Part(PartKind.SEARCH, request.asked)])

    async def _bounded(self, decided: Decision, account: Account) -> tuple[Decision, Budget | None]:
        """Reserve the budget of an answer that has one, for the passages it is written from.

        Everything the cloud must not learn is left out, including the passages' length. Raises
        `InvalidRequestError` if a passage has nothing left.
        """
        whole = decided.request
        if whole.epsilon is None or not whole.joint or whole.max_tokens == 0:
            return decided, None
        given = _writable(whole)
        limit = max(1, min(given.limit, (self.context_length - len(given.conversation)) // 2))
        request = replace(given, max_tokens=limit)
        found = await self.retrieval.find(request, limit)
        budget = Budget.of(whole.epsilon, min(limit, BOUNDED_TOKENS))
        await self.ledger.spending.reserve(found.passages, budget, self.settings.passage_epsilon)
        account.bounded(budget, found.passages)
        bare = self.retrieval.without(request).tokens
        return Decision(request, found.referring(bare)), budget

    def _plan(self, request: GenerationRequest, budget: Budget | None = None) -> Plan:
        exact, top_k = self.settings.exact, self.retrieval.passages(request)
        cited = first_number(Role.CLOUD, top_k) if self.retrieval.cites(request) else None
        return Plan(
            top_k=top_k,
            limit=request.limit,
            deadline=None if exact or request.wait else self.settings.first_token_deadline,
            schedule=self.schedule,
            catch_up=self.catch_up and not exact,
            rescore_every=self.settings.rescore_every,
            slope=self.retrieval.slope,
            certificates=self.certificates,
            least_weight=0.0 if exact else self.settings.least_cloud_weight,
            cloud_citations=cited,
            budget=budget,
        )

    def _run(self, request: GenerationRequest, plan: Plan) -> DeviceRun:
        written = replace(request, details=None) if _scored_whole(request) else request
        make = (
            partial(JointRun, Given.of(written), link=self.link)
            if request.joint
            else partial(DeviceRun, written)
        )
        return make(plan, engine=self.engine, tokenizer=self.tokenizer, pace=self.pace)

    @asynccontextmanager
    async def _recorded(
        self,
        run: DeviceRun,
        account: Account,
        question: str,
        texts: Sequence[str],
        premise: Sequence[int],
    ) -> AsyncIterator[None]:
        """Enter a run; on leaving it, note what the cloud knows of the `texts` written.

        A cloud that was asked knows the `premise`, if the answer begins with it.
        """
        try:
            async with run:
                yield
        finally:
            private = [(each.id, self.tokenizer.encode(each.text)) for each in run.answer.private]
            told, text = run.session.rule.told, "".join(texts)
            if run.asked and tuple(run.session.committed[: len(premise)]) == tuple(premise):
                told = max(told, len(premise))
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
        """The most tokens of its conversation that fit beside the answer and the row before it."""
        before = len(self.retrieval.without(request).tokens)
        return self.context_length - before - request.least

    def check(self, request: GenerationRequest) -> None:
        """Raises `InvalidRequestError` for what the model cannot do.

        Raises `ContextLengthError` unless prompt and answer fit the context together.
        """
        model = self.engine.model
        if request.mode.needs_full_distributions:
            require_full(model, *WHOLE_ANSWERS)
        if request.details is not None and request.details.prompt:
            require_full(model, "echo with logprobs", "leave out one of them")
        if request.mode.fetches_kv and model.kv is None:
            raise InvalidRequestError(
                f"{model.name} cannot load keys and values from a peer: use context_text",
                param="dragon.aggregation",
            )
        if len(request.conversation) > self.room(request):
            prompt = len(self.retrieval.without(request).tokens) + len(request.conversation)
            raise ContextLengthError(
                localizable(
                    "context.answer",
                    "This model's maximum context length is {context} tokens; however, you "
                    "requested {total} tokens ({prompt} in your prompt, {answer} for the "
                    "completion). Please shorten the prompt or lower max_tokens.",
                    context=model.context,
                    total=prompt + request.least,
                    prompt=prompt,
                    answer=request.least,
                ),
                param="prompt" if request.raw else "messages",
            )


def _writable(request: GenerationRequest) -> GenerationRequest:
    """The request that an answer may be written from: the cloud's version, if it may take part."""
    return Given.of(request).request if request.joint else request


def _scored_whole(request: GenerationRequest) -> bool:
    """Whether the answer is scored once it is finished, since its details are not known before."""
    return request.mode.waits and request.details is not None
