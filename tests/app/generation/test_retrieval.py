"""A question that leans on a conversation is looked up beside what was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.documents.hits import EVERYTHING, DocumentHit, Follows, Scope
from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest
from app.generation.retrieval import Retrieval, quoted
from dragon.inference.tokenizer import Message
from dragon.retrieval.prompt_rows import NO_ANSWER, Answers
from dragon.sampling.params import Sampling

FAIR = "The summer fair is on Saturday 19 July."
HIT = DocumentHit(1, "file-1", "minutes.md", FAIR, 0.9, 9.0, None, 0, len(FAIR))


@dataclass
class Documents:
    """Takes down what is searched, and finds nothing but what a reply was written from."""

    found: dict[str, Sequence[DocumentHit]] = field(default_factory=dict)
    searched: list[tuple[str, Scope]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> Sequence[DocumentHit]:
        self.searched.append((query, scope))
        return self.found.get(query, [])

    async def said(self, reply: str, scope: Scope = EVERYTHING) -> DocumentHit | None:
        self.replies.append(reply)
        return HIT if reply == FAIR else None


def retrieval_of(documents: Documents) -> Retrieval:
    nothing: Any = None
    store: Any = documents
    return Retrieval(
        nothing, nothing, nothing, nothing, store, nothing, Answers.LINES, None, 0, slope=0
    )


async def searched(query: str, *turns: str) -> Documents:
    """What is searched for a question, as a model rewrote it, at the end of a chat."""
    documents = Documents()
    retrieval = retrieval_of(documents)
    roles = ("user", "assistant") * len(turns)
    messages = tuple(Message(role, text) for role, text in zip(roles, turns, strict=False))
    request = GenerationRequest((), query, Sampling(), messages=messages)
    await retrieval.search(request, Answers.LINES, 1, await retrieval.said(request))
    return documents


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_each_question_that_a_message_joins_has_its_line(answered: int) -> None:
    whole = "When is the fair, and who has the key?"
    lines = [replace(HIT, id=n, text=text) for n, text in enumerate([FAIR, "Ada has the key."])]
    parts = ["When is the fair", "who has the key?"][:answered]
    found = {part: [line] for part, line in zip(parts, lines, strict=False)}
    best = [replace(HIT, id=9, text="The best of all.")]
    request = GenerationRequest((), whole, Sampling())
    got = await retrieval_of(Documents(found | {whole: best})).search(
        request, Answers.LINES, 1, None
    )
    assert got == (lines if answered == 2 else best)


async def test_what_leans_is_read_as_it_was_asked_too_beside_what_was_said() -> None:
    rewritten, asked = "What if it rains at the summer fair?", "And if it rains?"
    found = await searched(rewritten, "When is the fair?", FAIR, asked)
    turns = ("When is the fair?", FAIR), (asked, "")
    assert found.searched == [(rewritten, Scope(follows=Follows(HIT, asked), turns=turns))]


async def test_a_question_word_alone_is_read_as_it_was_rewritten() -> None:
    rewritten = "Where is the summer fair?"
    found = await searched(rewritten, "When is the fair?", FAIR, "where?")
    ((searched_for, scope),) = found.searched
    assert (searched_for, scope.follows) == (rewritten, Follows(HIT, rewritten))


async def test_what_stands_alone_is_looked_up_once_and_anywhere() -> None:
    asked = "Who does the raffle?"
    found = await searched(asked, "When is the fair?", FAIR, asked)
    ((searched_for, scope),) = found.searched
    assert (searched_for, scope.follows) == (asked, Follows(HIT, None))


@pytest.mark.parametrize("reply", ["", NO_ANSWER, MARK])
async def test_what_the_reply_before_says_nothing_of_is_found_in_one_before_that(
    reply: str,
) -> None:
    turns = "When is the fair?", FAIR, "Who was Fidelio?", reply, "And if it rains?"
    found = await searched("If it rains at the fair?", *turns)
    assert found.replies == [FAIR]


async def test_a_reply_of_no_document_leads_nowhere() -> None:
    turns = "What is the capital of Kenya?", "Nairobi is.", "And of Peru?"
    found = await searched("What is the capital of Peru?", *turns)
    assert {scope.follows for _, scope in found.searched} == {None}


async def test_a_plain_prompt_follows_nothing() -> None:
    found = await searched("Once upon a time")
    assert found.searched == [("Once upon a time", EVERYTHING)]


def test_a_line_says_for_how_many_others_it_stands_and_is_budgeted_as_it_is() -> None:
    assert quoted(HIT) is HIT
    many = quoted(replace(HIT, others=2))
    assert many.text == f"{FAIR} (The newest; 2 other places say otherwise.)"
    assert many.sentences == (FAIR,)
