"""What a service refuses, and `app.generation.deciding`: when the cloud is asked.

Not where the user's documents answer in anybody's wording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.generation.accumulator import AnswerState
from app.generation.deciding import Decider
from app.generation.events import Details, Event, GenerationRequest, NotAsked
from app.generation.everyday import Everyday
from app.generation.retrieval import Retrieval
from app.generation.service import GenerationService
from app.ledger.leakage import Part
from app.settings import Cloud, Settings
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.retrieval.prompt_rows import Answers
from dragon.retrieval.relevance import BARE_RELEVANCE, LEAST
from dragon.sampling.params import Mode, Sampling
from tests.samples import embedder, judge

TEXT = "The combination of the safe is 31-7-12."
WHOLE, KNOWN = "Who is Imogen's therapist, and the safe?", "What is the combination of the safe?"


@dataclass
class Documents:
    """A note that answers one question and no other, with so much relevance."""

    answered: str
    relevance: float = 9.0

    async def unread(self, scope: Scope = EVERYTHING) -> int:
        return 0

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> Sequence[DocumentHit]:
        hit = DocumentHit(1, "file-1", "safe.md", TEXT, 0.9, self.relevance, None, 0, len(TEXT))
        return [hit] if query == self.answered else []

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> Sequence[DocumentHit]:
        return []

    async def said(self, reply: str, scope: Scope = EVERYTHING) -> None:
        return None


class Rewriter:
    """Rewrites the question of the whole chat in one way, and that of the cloud's in another."""

    async def alone(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, query=WHOLE)

    async def alone_for_cloud(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, cloud_query=KNOWN)


@dataclass
class Ledger:
    """Notes what the cloud is asked with."""

    writable: bool = True
    parts: list[Part] = field(default_factory=list)
    open: bool = False

    @contextmanager
    def begin(self, *_: object, **__: object) -> Any:
        self.open = True
        yield SimpleNamespace(given=self.parts.extend, sent={})
        self.open = False


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question is taken for small talk."""

    async def needless(*_: object) -> bool:
        return False

    monkeypatch.setattr(Everyday, "needless", needless)


@pytest.fixture
def rewritten_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def as_asked(_: object, request: GenerationRequest) -> GenerationRequest:
        return request

    monkeypatch.setattr(Rewriter, "alone", as_asked)
    monkeypatch.setattr(Rewriter, "alone_for_cloud", as_asked)


def service(
    tokenizer: Tokenizer, ledger: Ledger, documents: Documents, pool: ThreadPoolExecutor
) -> GenerationService:
    nothing: Any = None
    link: Any = SimpleNamespace(connected=True)
    engine: Any = SimpleNamespace(
        model=SimpleNamespace(context=1000, kv=None, cache=SimpleNamespace(slots=6)),
        submit_urgent=pool.submit,
    )
    store: Any = documents
    found = Retrieval(
        tokenizer, embedder(), judge(), engine, store, link, Answers.LINES, None, 0, slope=0
    )
    everyday = Everyday(engine, tokenizer, embedder(), judge())
    rewriter: Any = Rewriter()
    account: Any = ledger
    decider = Decider(found, everyday, rewriter, link, account)
    settings = Settings(_env_file=None, api_key="key")
    return GenerationService(
        settings, tokenizer, engine, found, link, nothing, account, nothing, decider
    )


@pytest.mark.parametrize(
    ("answered", "stays"), [(WHOLE, True), (KNOWN, True), ("Something else?", False)]
)
@pytest.mark.usefixtures("needed")
async def test_where_documents_answer_what_the_cloud_would_be_asked_nothing_leaves(
    tokenizer: Tokenizer, pool: ThreadPoolExecutor, answered: str, stays: bool
) -> None:
    asked = Message("user", "And the combination?")
    own = (Message("user", "Who is her therapist?"), Message("assistant", "Imogen."), asked)
    request = GenerationRequest(
        (20, 21, 22),
        asked.content,
        Sampling(),
        cloud_conversation=(22,),
        messages=own,
        cloud_messages=(asked,),
        max_tokens=0,
        cloud=Cloud.WHEN_NEEDED,
    )
    ledger = Ledger()
    events: list[Event] = []
    async for event in service(tokenizer, ledger, Documents(answered), pool).write(
        AnswerState(request)
    ):
        events.append(event)
    assert any(isinstance(event, NotAsked) for event in events) is stays
    assert [part.text for part in ledger.parts] == ([] if stays else [KNOWN])


@pytest.mark.usefixtures("needed")
async def test_a_redaction_while_passages_are_chosen_reaches_the_account(
    tokenizer: Tokenizer, pool: ThreadPoolExecutor
) -> None:
    """Only accounts that are open are told to keep no words."""
    ledger = Ledger()
    searched: list[bool] = []

    class Redacted(Documents):
        async def search(self, *args: Any, **options: Any) -> Sequence[DocumentHit]:
            searched.append(ledger.open)
            return await super().search(*args, **options)

    asked = Message("user", WHOLE)
    request = GenerationRequest(
        (20,), WHOLE, Sampling(), messages=(asked,), max_tokens=0, cloud=Cloud.WHEN_NEEDED
    )
    async for _ in service(tokenizer, ledger, Redacted(WHOLE), pool).write(AnswerState(request)):
        pass
    assert searched
    assert all(searched)


WORLD, MINE = "How tall does a giraffe get?", "When is our rent due?"


@pytest.mark.parametrize(
    ("question", "relevance", "chosen", "stays"),
    [
        (WORLD, -1.0, None, False),
        (WORLD, 6.0, None, True),
        (WORLD, -1.0, ("file-1",), True),
        (MINE, -1.0, None, True),
    ],
)
@pytest.mark.usefixtures("needed", "rewritten_as_asked")
async def test_what_anybody_may_ask_stays_only_where_a_line_is_sure(
    tokenizer: Tokenizer,
    pool: ThreadPoolExecutor,
    question: str,
    relevance: float,
    chosen: tuple[str, ...] | None,
    stays: bool,
) -> None:
    """The line takes part all the same, beside what the cloud finds."""
    asked = (Message("user", question),)
    request = GenerationRequest(
        (20,), question, Sampling(), messages=asked, cloud_messages=asked, max_tokens=5,
        cloud=Cloud.WHEN_NEEDED, documents=chosen,
    )  # fmt: skip
    decided = await service(
        tokenizer, Ledger(), Documents(question, relevance), pool
    ).decider.decide(request)
    assert decided.request.joint is not stays
    assert decided.found is not None
    assert [source.text for source in decided.found.sources] == [TEXT]
    assert decided.found.rows[0].relevance <= relevance


LEANS = "What is the capital of the country our au pair comes from?"


@pytest.mark.parametrize(
    ("known", "limit", "stop", "epsilon", "begins"),
    [
        (None, 50, (), None, True),
        ((22,), 50, (), None, False),
        (None, 50, (), 1.0, False),
        (None, 5, (), None, False),
        (None, 50, ("safe",), None, False),
    ],
)
@pytest.mark.usefixtures("needed", "rewritten_as_asked")
async def test_what_leans_on_a_line_begins_with_it_where_the_cloud_may_know_the_question(
    tokenizer: Tokenizer,
    pool: ThreadPoolExecutor,
    known: tuple[int, ...] | None,
    limit: int,
    stop: tuple[str, ...],
    epsilon: float | None,
    begins: bool,
) -> None:
    """Otherwise the line alone is the answer, and nothing leaves."""
    asked = (Message("user", LEANS),)
    request = GenerationRequest(
        (20,), LEANS, Sampling(), messages=asked, cloud_messages=asked,
        cloud=Cloud.WHEN_NEEDED, cloud_query="What?" if known else None, epsilon=epsilon,
        max_tokens=limit, stop=stop,
    )  # fmt: skip
    documents = Documents(LEANS, -1.0)
    decided = await service(tokenizer, Ledger(), documents, pool).decider.decide(request)
    assert decided.request.joint is begins
    assert tokenizer.decode(decided.request.premise) == (TEXT if begins else "")
    if begins:
        assert decided.found is not None
        assert [row.relevance for row in decided.found.rows] == [(BARE_RELEVANCE + LEAST) / 2]


CONTEXT, BEFORE = 100, 6
ASKED = GenerationRequest(conversation=(1,) * 60, query="", sampling=Sampling(), max_tokens=34)


def small(*, full: bool = True) -> GenerationService:
    """With a model of 100 tokens, whose prompts begin with 6."""
    row = Row((0,) * BEFORE, relevance=0)
    engine: Any = SimpleNamespace(
        model=SimpleNamespace(name="model", context=CONTEXT, full=full, kv=None)
    )
    found: Any = SimpleNamespace(without=lambda request: row)
    nothing: Any = None
    return GenerationService(
        nothing, nothing, engine, found, nothing, nothing, nothing, nothing, nothing
    )


def test_a_prompt_that_fits_to_the_last_token() -> None:
    assert small().room(ASKED) == 60
    small().check(ASKED)
    with pytest.raises(ContextLengthError) as caught:
        small().check(replace(ASKED, max_tokens=35))
    message = "maximum context length is 100 tokens; however, you requested 101 tokens (66 in your"
    assert message in caught.value.message
    assert caught.value.param == "messages"


def test_without_max_tokens_there_is_room_for_one() -> None:
    small().check(replace(ASKED, conversation=(1,) * 93, max_tokens=None))
    with pytest.raises(ContextLengthError) as caught:
        small().check(replace(ASKED, conversation=(1,) * 94, max_tokens=None, raw=True))
    assert caught.value.param == "prompt"


def test_what_needs_every_probability_names_what_does_not() -> None:
    scored = replace(ASKED, details=Details(prompt=True))
    whole = replace(ASKED, mode=Mode.SEQUENCEWISE)
    small().check(scored)
    small().check(whole)
    with pytest.raises(InvalidRequestError, match="leave out one of them, or use a model that"):
        small(full=False).check(scored)
    with pytest.raises(InvalidRequestError, match="use aggregation oneway, coupled or local, or"):
        small(full=False).check(whole)


def test_keys_and_values_need_a_model_that_takes_them() -> None:
    with pytest.raises(InvalidRequestError, match="use context_text"):
        small().check(replace(ASKED, mode=Mode.CONTEXT_KV))
