"""The generation service, which turns a request into the events of an answer."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from app.generation.accumulator import AnswerObserver, AnswerState, observing
from app.generation.cloud_view import CloudView, Known
from app.generation.deciding import Decider, Decision
from app.generation.events import Event, Finished, GenerationRequest, question_of
from app.generation.joint_run import JointRun
from app.generation.plan import Plan, Retrieved
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
    observers: Sequence[AnswerObserver] = ()
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

    async def write(self, answer: AnswerState) -> AsyncGenerator[Event, None]:
        """The events of an answer, each already in its state; closing this frees both sides.

        The request has passed `check`. Raises `InvalidRequestError` before the first event,
        `DragonError` if the model fails.
        """
        asked = answer.request
        with (
            observing(answer, *self.observers) as take,
            self.ledger.begin(asked.id, self.tokenizer.decode, private=asked.private) as account,
        ):
            decided = await self.decider.decide(asked)
            for reason in decided.events:
                yield take(reason)
            self._note_asked(decided, account)
            request, ready, budget = await self._ready(decided, account)
            plan = self._plan(request, budget)

            if ready is not None and (asked.scores_prompt or not asked.limit):
                yield take(ready.found())
            if ready is not None and asked.scores_prompt:
                scorer = self._scorer(asked, joint=request.joint)
                for scores in await scorer.prompt(decided.request, plan, ready):
                    yield take(scores)
            if not asked.limit:
                prompt = asked.prompt_tokens(self.tokenizer)
                yield take(Finished("length", prompt, 0, stats=account.sent))
                return

            run = self._run(request, plan)
            try:
                async with run:
                    found = ready or await self.retrieval.find(request)
                    run.write(found)
                    async for event in run:
                        if isinstance(event, Finished):
                            end = event
                        else:
                            yield take(event)
            finally:
                self._note_answer(run, answer, request.premise, account)
            if _scored_at_the_end(request):
                scorer = self._scorer(asked, joint=bool(run.session.intervals()))
                yield take(await scorer.answer(request, plan, found, run.answer))
            yield take(replace(end, stats={**end.stats, **account.sent}))

    def _note_asked(self, decided: Decision, account: Account) -> None:
        """Record what the cloud is asked with: the user's words, and whose line comes first."""
        request = decided.request
        if request.joint:
            account.given(request.given_parts(self.tokenizer.decode))
        elif request.mode.fetches and not request.private:
            account.given([Part(PartKind.SEARCH, request.asked)])
        if decided.found is not None and request.premise:
            account.sources.update(source.id for source in decided.found.sources)

    async def _ready(
        self, decided: Decision, account: Account
    ) -> tuple[GenerationRequest, Retrieved | None, Budget | None]:
        """What an answer is written from, the passages if they are needed before it is begun.

        If the cloud may take part, that is the cloud's version of the request. With a budget,
        everything the cloud must not learn is left out, including the passages' length. Raises
        `InvalidRequestError` if a passage has nothing left of its budget.
        """
        whole = decided.request
        request = whole.given() if whole.joint else whole
        if whole.epsilon is None or not whole.joint or not whole.limit:
            found = decided.found
            if found is None and (whole.scores_prompt or not whole.limit):
                found = await self.retrieval.find(request)
            return request, found, None
        most = (self.context_length - len(request.conversation)) // 2
        bounded = replace(request, max_tokens=max(1, min(request.limit, most)))
        chosen = await self.retrieval.find(bounded)
        budget = Budget.of(whole.epsilon, min(bounded.limit, BOUNDED_TOKENS))
        await self.ledger.spending.reserve(chosen.passages, budget, self.settings.passage_epsilon)
        account.bounded(budget, chosen.passages)
        return bounded, chosen.referring(self.retrieval.without(bounded).tokens), budget

    def _plan(self, request: GenerationRequest, budget: Budget | None = None) -> Plan:
        exact, (style, top_k) = self.settings.exact, self.retrieval.form(request)
        return Plan(
            top_k=top_k,
            deadline=None if exact or request.wait else self.settings.first_token_deadline,
            schedule=self.schedule,
            catch_up=self.catch_up and not exact,
            rescore_every=self.settings.rescore_every,
            slope=self.retrieval.slope,
            certificates=self.certificates,
            least_weight=0.0 if exact else self.settings.least_cloud_weight,
            cloud_citations=first_number(Role.CLOUD, top_k) if style is Answers.WORDS else None,
            budget=budget,
        )

    def _run(self, request: GenerationRequest, plan: Plan) -> DeviceRun:
        written = replace(request, details=None) if _scored_at_the_end(request) else request
        parts = written, plan, self.engine, self.tokenizer, self.pace
        return JointRun(*parts, self.link) if request.joint else DeviceRun(*parts)

    def _note_answer(
        self, run: DeviceRun, answer: AnswerState, premise: Sequence[int], account: Account
    ) -> None:
        """Note what the cloud knows of an answer: the `premise`, if asked to go on from there."""
        private = [(each.id, self.tokenizer.encode(each.text)) for each in run.answer.private]
        committed, told = run.session.committed, run.session.rule.told
        if run.asked and tuple(committed[: len(premise)]) == tuple(premise):
            told = max(told, len(premise))
        account.wrote(private, committed, told)
        ends = self.tokenizer.end_ids
        tokens = [each for each in run.answer.tokens[:told] if each not in ends]
        known = min(answer.length, len(self.tokenizer.decode(tokens)))
        ranges = ((0, known),) if known else ()
        question = question_of(answer.request.messages)
        self.cloud_view.wrote(question, answer.text, Known(run.asked, ranges))
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
        if request.scores_prompt:
            require_full(model, "echo with logprobs", "leave out one of them")
        if request.mode.fetches_kv and model.kv is None:
            raise InvalidRequestError(
                f"{model.name} cannot load keys and values from a peer: use context_text",
                param="dragon.aggregation",
            )
        if (over := len(request.conversation) - self.room(request)) > 0:
            total = model.context + over
            raise ContextLengthError(
                localizable(
                    "context.answer",
                    "This model's maximum context length is {context} tokens; however, you "
                    "requested {total} tokens ({prompt} in your prompt, {answer} for the "
                    "completion). Please shorten the prompt or lower max_tokens.",
                    context=model.context,
                    total=total,
                    prompt=total - request.least,
                    answer=request.least,
                ),
                param="prompt" if request.raw else "messages",
            )


def _scored_at_the_end(request: GenerationRequest) -> bool:
    """Whether the details of an answer are only known once it is finished."""
    return request.mode.waits and request.details is not None
