"""When the cloud is asked: not where the user's documents answer in anybody's wording."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.generation.events import Event, GenerationRequest, NotAsked
from app.generation.retrieval import Retrieval
from app.generation.service import GenerationService
from app.ledger.leakage import Part
from app.settings import Cloud
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.retrieval.answers import Answers
from dragon.sampling.params import Sampling

TEXT = "The combination of the safe is 31-7-12."
WHOLE, KNOWN = "Who is Imogen's therapist, and the safe?", "What is the combination of the safe?"


@dataclass
class Documents:
    """A note that answers one question and no other."""

    answered: str

    async def unread(self, scope: Scope = EVERYTHING) -> int:
        return 0

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> Sequence[DocumentHit]:
        hit = DocumentHit(1, "file-1", "safe.md", TEXT, 0.9, 9.0, None, 0, len(TEXT))
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

    @contextmanager
    def begin(self, *_: object, **__: object) -> Any:
        yield SimpleNamespace(given=self.parts.extend, sent={})


def service(tokenizer: Tokenizer, ledger: Ledger, documents: Documents) -> GenerationService:
    nothing: Any = None
    link: Any = SimpleNamespace(connected=True)
    engine: Any = SimpleNamespace(
        model=SimpleNamespace(context=1000, kv=None, cache=SimpleNamespace(slots=6)),
        submit_urgent=lambda job: job(),
    )
    found = Retrieval(tokenizer, nothing, nothing, engine, documents, link, Answers.LINES, None, 0)
    rewriter: Any = Rewriter()
    account: Any = ledger
    return GenerationService(
        nothing, tokenizer, engine, found, link, nothing, account, nothing, rewriter
    )


@pytest.mark.parametrize(
    ("answered", "stays"), [(WHOLE, True), (KNOWN, True), ("Something else?", False)]
)
async def test_where_documents_answer_what_the_cloud_would_be_asked_nothing_leaves(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, answered: str, stays: bool
) -> None:
    async def needed(*_: object) -> bool:
        return False

    monkeypatch.setattr(Retrieval, "needless", needed)
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
    async for event in service(tokenizer, ledger, Documents(answered)).generate(request):
        events.append(event)
    assert any(isinstance(event, NotAsked) for event in events) is stays
    assert [part.text for part in ledger.parts] == ([] if stays else [KNOWN])
