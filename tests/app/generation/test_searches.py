"""A question that leans on a chat is looked up first where the last answer is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.generation.events import GenerationRequest
from app.generation.searches import Search, searches
from dragon.inference.tokenizer import Message
from dragon.retrieval.prompt_rows import NO_ANSWER
from dragon.retrieval.standing_alone import standing_alone
from dragon.sampling.params import Sampling

RENT = "The rent rises to 54 pounds a year from October."
NOTE = Scope(("file-1",))


@dataclass
class Documents:
    """Whatever is searched for, this passage comes nearest."""

    text: str = RENT
    asked: list[str] = field(default_factory=list)

    async def search(
        self, query: str, k: int, scope: Scope, *, relevant: bool
    ) -> Sequence[DocumentHit]:
        assert (k, relevant) == (1, False)
        self.asked.append(query)
        return [DocumentHit(1, "file-1", "note.md", self.text, 0.9, 9.0, None, 0, len(self.text))]


def request(question: str, *, reply: str = RENT, raw: bool = False) -> GenerationRequest:
    first = "What does a plot cost?"
    messages = Message("user", first), Message("assistant", reply), Message("user", question)
    return GenerationRequest(
        conversation=(),
        query=question,
        sampling=Sampling(),
        query_alone=None if raw else standing_alone(question, [first]),
        messages=() if raw else messages,
    )


async def test_a_question_that_leans_is_asked_of_the_last_answers_document_first() -> None:
    assert await searches(request("And when?"), Documents()) == [
        Search("And when? (plot cost)", NOTE),
        Search("And when? (plot cost)", EVERYTHING),
    ]


async def test_one_that_does_not_is_asked_of_all() -> None:
    documents = Documents()
    everywhere = [Search("Who runs the raffle?", EVERYTHING)]
    assert await searches(request("Who runs the raffle?"), documents) == everywhere
    assert documents.asked == []


@pytest.mark.parametrize("reply", ["", NO_ANSWER, "Nairobi is the Kenyan capital."])
async def test_an_answer_of_no_document_leads_nowhere(reply: str) -> None:
    everywhere = [Search("And when? (plot cost)", EVERYTHING)]
    assert await searches(request("And when?", reply=reply), Documents()) == everywhere


async def test_a_row_of_which_the_answer_gave_a_cell_is_known() -> None:
    row = Documents("code: B105; model: Velta Cargo; price_eur: 3450; stock: 2; colour: blue")
    found = await searches(request("And when?", reply="B105, Velta Cargo, price_eur: 3450"), row)
    assert found[0].scope == NOTE


async def test_a_plain_prompt_has_no_question_before() -> None:
    documents = Documents()
    assert len(await searches(request("Who runs the raffle?", raw=True), documents)) == 1
    assert documents.asked == []


ROW = "id: S07; date: 28 March; work: timing belt; labour_eur: 380; mechanic: Dario"


@pytest.mark.parametrize("question", ["How much was the labour?", "And who did it?"])
async def test_what_is_asked_of_the_row_just_quoted_is_asked_of_that_row(question: str) -> None:
    first, *_ = await searches(request(question, reply=ROW), Documents(ROW))
    assert first == Search(f"{question} (s07)", NOTE)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Who replaced the battery?", ROW),  # another row's
        ("How much was the labour?", f"{ROW} | id: S08; labour_eur: 55"),  # which one?
        ("Who runs the raffle?", ROW),
    ],
)
async def test_another_question_is_not(question: str, reply: str) -> None:
    assert await searches(request(question, reply=reply), Documents(reply)) == [
        Search(question, EVERYTHING)
    ]
