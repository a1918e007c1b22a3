"""What a message asks for: one question, or several, and nothing of the courtesies around it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragon.retrieval.find import LineReader, ranked
from dragon.retrieval.query_parsing import Query, asks_nothing, plain, questions_of
from dragon.retrieval.relevance import Hit
from tests.samples import embedder, hits, judge

BOTH = "What is the capital of Kenya, and what is my gym locker's code?"


@pytest.mark.parametrize(
    ("message", "joined"),
    [
        (BOTH, ["What is the capital of Kenya", "what is my gym locker's code?"]),
        (
            "Where is the tent and in which month is the fair, please?",
            ["Where is the tent", "in which month is the fair?"],
        ),
        (
            "1. What is the capital of Kenya?\n2. What is my PIN?\n3. Who is my dentist?",
            ["What is the capital of Kenya?", "What is my PIN?", "Who is my dentist?"],
        ),
        # What points back is asked with the rest, not alone.
        ("Who is Marie Curie and when did she die?", ["Who is Marie Curie"]),
        ("Who is my dentist? When do I see her?", ["Who is my dentist?"]),
        ("What is my PIN? What is my PIN?", ["What is my PIN?"]),
    ],
)
def test_joined_questions_come_apart(message: str, joined: list[str]) -> None:
    assert questions_of(message) == (plain(message), *joined)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "? ? ?",
        "Hi! Could you tell me where the tent is?",
        "What is the dress code of the wedding? Please tell me.",
        "What is the wifi password? Thank you so much! It's urgent.",
        "I am going to Rome in May. What is the weather like? Thanks",
        "Which of salt and pepper does the soup need?",
        "Which of my friends lives in Oslo and has a dog?",
        "Which shops sell milk and are open on Sunday?",
        "Who is the vet who treated Rex and whose office is in Bergen?",
        "What is the difference between what I paid and what I owe?",
        "Who played Dr. Who in 2005, and why?",
        "Where do Anna and Will Smith live?",
        "What film is Who Framed Roger Rabbit? based on",
        "Write a poem about autumn and winter.",
        "for x in y; do echo hi; done",
    ],
)
def test_one_question_stays_one(message: str) -> None:
    assert questions_of(message) == (plain(message),)


def test_the_last_three_questions_are_looked_at() -> None:
    asked = [f"What is the code of door {number}?" for number in range(40)]
    assert questions_of(" ".join(asked))[1:] == tuple(asked[-3:])


@pytest.mark.parametrize("run", [" ", "\n", "?", "? ", " and", " and what", "1. ", "a. what "])
def test_a_long_run_of_anything_is_read_once(run: str) -> None:
    """What grows with the square of it takes minutes here."""
    questions_of("x" + run * (60_000 // len(run)) + "x")


PAIRS = {
    ("What is the capital of Kenya", "Nairobi is the capital of Kenya."):
        ("what is my gym locker's code?", "The code of my gym locker is 4096-B."),
    ("When does the dentist want to see me", "Dentist: Tuesday 14 May, 08:50, with Dr Okonjo."):
        ("who came up with Velcro?", "George de Mestral invented Velcro in 1941."),
    ("Who discovered osmium", "Smithson Tennant discovered osmium in 1803."):
        ("how long did the best loaf prove?", "The best loaf proved for fourteen hours."),
    ("Where does the Amazon start", "The Amazon rises in the Andes of Peru."):
        ("where is our spare key?", "The spare key hangs under the third flowerpot."),
}  # fmt: skip


def test_what_answers_one_of_two_questions_takes_part() -> None:
    """Each passage counts as if its question were asked alone, more than if the whole were."""
    for (one, first), (other, second) in PAIRS.items():
        texts = [first, second]
        both = Query.of(f"{one}, and {other}", embedder())
        assert both.questions[1:] == (one, other)
        taken = {hit.text: hit.score for hit in found(both, texts)}
        for question, text in zip(both.questions[1:], texts, strict=True):
            (alone,) = (hit for hit in found(Query.of(question, embedder()), texts)[:1])
            assert alone.text == text
            assert taken[text] == pytest.approx(alone.score, abs=0.05)
        whole = found(Query(both.questions[:1], both.vectors[:1]), texts)
        assert sum(taken.values()) > sum(hit.score for hit in whole)


@pytest.mark.parametrize(
    "message",
    [
        "What is the capital of Norway, and what is my brother's passport number?",
        "Who is Marie Curie and when did she die?",
    ],
)
def test_what_answers_no_question_asked_alone_takes_no_part(message: str) -> None:
    texts = ["Nairobi is the capital of Kenya.", "My uncle died in 1998.", "The ferry is red."]
    query = Query.of(message, embedder())
    alone = [Query((q,), v[None]) for q, v in zip(query.questions, query.vectors, strict=True)]
    assert {hit.text for hit in found(query, texts)} <= {
        hit.text for each in alone for hit in found(each, texts)
    }


def found(query: Query, texts: Sequence[str]) -> list[Hit]:
    best = ranked(query.questions, query.vectors, hits([(text, "") for text in texts]))
    return LineReader(judge(), embedder()).answering(
        query.questions, best, {hit.id: [hit] for hit in best}
    )


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("Where is the tent?", "Where is the tent?"),
        ("Hi! Could you tell me where the tent is, please?", "where the tent is?"),
        ("Sorry, quick question: where is the tent? Thanks.", "where is the tent?"),
        ("Do you remember who repaired it? I forgot.", "who repaired it?"),
        ("hello there, any idea when it opens", "when it opens"),
        # Words that are asked for stay.
        ("Who is the tell-tale?", "Who is the tell-tale?"),
        ("When is question time?", "When is question time?"),
        ("Hidden where?", "Hidden where?"),
        ("Sonia called when?", "Sonia called when?"),
        ("How do you say thank you?", "How do you say thank you?"),
        ("Where is the umbrella I forgot?", "Where is the umbrella I forgot?"),
        # Nothing would be left to look for.
        ("Hello!", "Hello!"),
        ("Do you know?", "Do you know?"),
        ("", ""),
    ],
)
def test_plain(asked: str, left: str) -> None:
    assert plain(asked) == left
    assert plain(left) == left


@pytest.mark.timeout(60)
@pytest.mark.parametrize("run", [" ", ", ", "hi, ", " please", "please ", "? ", "thanks. "])
def test_a_long_run_around_a_question_is_read_once(run: str) -> None:
    """What grows with the square of it takes minutes here."""
    assert plain("a" + run * 60_000 + "boat").endswith("boat")
    assert plain(run * 60_000 + "boat").endswith("boat")
    assert plain("boat" + run * 60_000).startswith("boat")


@pytest.mark.parametrize("message", ["Hello!", "hi", "Hi there!", "Thanks", "Who are you?"])
def test_courtesy_alone_asks_nothing(message: str) -> None:
    assert asks_nothing(message)


@pytest.mark.parametrize("message", ["key", "Hello, where is the key?", "Thanks! And the cabin?"])
def test_a_question_behind_courtesy_asks(message: str) -> None:
    assert not asks_nothing(message)
