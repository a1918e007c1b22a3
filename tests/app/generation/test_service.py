"""What a service refuses, and `app.generation.deciding`: when the cloud is asked.

Not where the user's documents answer in anybody's wording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


@dataclass
class Rewriter:
    """Rewrites the question of the whole chat in one way, and that of the cloud's in another."""

    rewrites: bool

    async def alone(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, query=WHOLE) if self.rewrites else request

    async def alone_for_cloud(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, cloud_query=KNOWN) if self.rewrites else request


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


Make = Callable[..., GenerationService]


@pytest.fixture
def service(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes services of a ledger and documents, which take no question for small talk."""

    async def needless(*_: object) -> bool:
        return False

    monkeypatch.setattr(Everyday, "needless", needless)
    pool = ThreadPoolExecutor(1)
    nothing: Any = None
    link: Any = SimpleNamespace(connected=True)
    engine: Any = SimpleNamespace(
        model=SimpleNamespace(context=1000, kv=None, cache=SimpleNamespace(slots=6)),
        submit_urgent=pool.submit,
    )

    def make(documents: Any, ledger: Any = None, *, rewrites: bool = True) -> GenerationService:
        found = Retrieval(
            tokenizer, embedder(), judge(), engine, documents, link, Answers.LINES, None, 0, slope=0
        )
        everyday = Everyday(engine, tokenizer, embedder(), judge())
        rewriter: Any = Rewriter(rewrites)
        account = ledger or Ledger()
        decider = Decider(found, everyday, rewriter, link, account)
        settings = Settings(_env_file=None, api_key="key")
        return GenerationService(
            settings, tokenizer, engine, found, link, nothing, account, nothing, decider
        )

    with pool:
        yield make


async def events_of(service: GenerationService, request: GenerationRequest) -> list[Event]:
    return [event async for event in service.write(AnswerState(request))]


@pytest.mark.parametrize(
    ("answered", "stays"), [(WHOLE, True), (KNOWN, True), ("Something else?", False)]
)
async def test_where_documents_answer_what_the_cloud_would_be_asked_nothing_leaves(
    service: Make, answered: str, stays: bool
) -> None:
    asked = Message("user", "And the combination?")
    own = (Message("user", "Who is her therapist?"), Message("assistant", "Imogen."), asked)
    request = GenerationRequest(
        (20, 21, 22),
        asked.content,
        cloud_conversation=(22,),
        messages=own,
        cloud_messages=(asked,),
        max_tokens=0,
        cloud=Cloud.WHEN_NEEDED,
    )
    ledger = Ledger()
    events = await events_of(service(Documents(answered), ledger), request)
    assert (NotAsked() in events) is stays
    assert [part.text for part in ledger.parts] == ([] if stays else [KNOWN])


async def test_a_redaction_while_passages_are_chosen_reaches_the_account(service: Make) -> None:
    """Only accounts that are open are told to keep no words."""
    ledger = Ledger()
    searched: list[bool] = []

    class Redacted(Documents):
        async def search(self, *args: Any, **options: Any) -> Sequence[DocumentHit]:
            searched.append(ledger.open)
            return await super().search(*args, **options)

    asked = (Message("user", WHOLE),)
    request = GenerationRequest((20,), WHOLE, messages=asked, max_tokens=0, cloud=Cloud.WHEN_NEEDED)
    await events_of(service(Redacted(WHOLE), ledger), request)
    assert searched
    assert all(searched)


def question(text: str, **more: Any) -> GenerationRequest:
    """A chat of one question, for which the cloud is asked when needed."""
    asked = (Message("user", text),)
    return GenerationRequest(
        (20,), text, messages=asked, cloud_messages=asked, cloud=Cloud.WHEN_NEEDED, **more
    )


WORLD, MINE = "How tall does a giraffe get?", "When is our rent due?"


@pytest.mark.parametrize(
    ("text", "relevance", "chosen", "stays"),
    [
        (WORLD, -1.0, None, False),
        (WORLD, 6.0, None, True),
        (WORLD, -1.0, ("file-1",), True),
        (MINE, -1.0, None, True),
    ],
)
async def test_what_anybody_may_ask_stays_only_where_a_line_is_sure(
    service: Make, text: str, relevance: float, chosen: tuple[str, ...] | None, stays: bool
) -> None:
    """The line takes part all the same, beside what the cloud finds."""
    decider = service(Documents(text, relevance), rewrites=False).decider
    decided = await decider.decide(question(text, max_tokens=5, documents=chosen))
    assert decided.request.joint is not stays
    assert decided.found is not None
    assert [source.text for source in decided.found.sources] == [TEXT]
    assert decided.found.rows[0].relevance <= relevance


LEANS = "What is the capital of the country our au pair comes from?"


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({}, True),
        ({"cloud_conversation": (22,), "cloud_query": "What?"}, False),
        ({"epsilon": 1.0}, False),
        ({"max_tokens": 5}, False),
        ({"stop": ("safe",)}, False),
    ],
)
async def test_what_leans_on_a_line_begins_with_it_where_the_cloud_may_know_the_question(
    service: Make, tokenizer: Tokenizer, more: dict[str, Any], begins: bool
) -> None:
    """Otherwise the line alone is the answer, and nothing leaves."""
    decider = service(Documents(LEANS, -1.0), rewrites=False).decider
    decided = await decider.decide(question(LEANS, **{"max_tokens": 50} | more))
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
