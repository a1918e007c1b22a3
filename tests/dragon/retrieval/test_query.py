"""What a message asks for: one question, or several."""

from __future__ import annotations

import pytest

from dragon.retrieval.query import Query, questions_of
from dragon.retrieval.ranking import answering, ranked
from dragon.retrieval.relevance import Hit
from tests.samples import embedder, reranker

BOTH = "What is the capital of Kenya, and what is my gym locker's code?"


@pytest.mark.parametrize(
    ("message", "joined"),
    [
        (BOTH, ["What is the capital of Kenya", "what is my gym locker's code?"]),
        ("Who is my dentist? When do I see her?", ["Who is my dentist", "When do I see her?"]),
        (
            "Where is the tent and in which month is the fair, please?",
            ["Where is the tent", "in which month is the fair?"],
        ),
        ("Hi! Could you tell me where the tent is?", []),
        ("What is the dress code of the wedding? Please tell me.", []),
        ("Which of salt and pepper does the soup need?", []),
        ("Is St. John's open, and why?", []),
        ("", []),
    ],
)
def test_joined_questions_come_apart(message: str, joined: list[str]) -> None:
    whole, *parts = questions_of(message)
    assert parts == joined
    assert whole in message or "please" in message


def test_at_most_three_questions_are_looked_at() -> None:
    asked = " ".join(f"What is the code of door {n}?" for n in range(40))
    assert len(questions_of(asked)) == 4


def test_what_answers_one_of_two_questions_takes_part() -> None:
    """Neither passage answers the whole; each answers its question as if asked alone."""
    texts = {
        "Nairobi is the capital of Kenya.": "What is the capital of Kenya?",
        "The code of my gym locker is 4096-B.": "What is my gym locker's code?",
    }
    vectors = embedder().embed(list(texts))
    hits = [
        Hit(n, "d", "t", text, 0.0, 0.0, vector=vector)
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    both, unrelated = (
        Query.of(message, embedder())
        for message in (BOTH, "Who won the cup in 1998, and who paid for my grandmother's boat?")
    )
    assert {hit.text for hit in answering(both, ranked(both, hits), 2, reranker())} == set(texts)
    assert not answering(unrelated, ranked(unrelated, hits), 2, reranker())
