"""Which passages take part: the best ones that are likely to answer.

Covers `dragon.retrieval.answerability`.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from dragon.retrieval.answerability import CONSTANTS, MOST, WEIGHT, features, kind_missing, names
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import answering, ranked
from dragon.retrieval.relevance import MINIMUM_SCORE, relevance
from tests.samples import embedder, hits, reranker
from training.data.sources import open_facts

NOTES = [
    ("The spare key hangs under the third flowerpot on the balcony.", "Things to know."),
    ("The router sits behind the bookshelf.", "Moved into the flat."),
    ("Our landlady Mrs Halvorsen comes by on the first of March.", "Things to know."),
    ("England formally declared war on France on May 18, 1756.", "The war began late."),
]


def found(question: str, k: int = 2) -> list[str]:
    query = Query.of(question, embedder())
    best = ranked(query, hits(NOTES))
    return [hit.text for hit in answering(query, best, k, reranker())]


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Where is the spare key?", 0),
        ("Where do I find the router?", 1),
        ("When does Mrs Halvorsen come?", 2),
        ("When did England declare war on France?", 3),
    ],
)
def test_what_answers_comes_first(question: str, place: int) -> None:
    assert found(question)[0] == NOTES[place][0]
    assert len(found(question, 1)) == 1


CLUB = [
    ("3. Membership fee", ""),
    ("The fee is 184 euros a year.", "3. Membership fee"),
    ("4. Keys", ""),
    ("## Boats", ""),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the membership fee?", "The fee is 184 euros a year."),
        ("What about the keys?", "4. Keys"),  # nothing else answers
        ("What about the boats?", "## Boats"),
    ],
)
def test_a_line_that_only_says_what_is_asked_for_gives_way(question: str, answer: str) -> None:
    query = Query.of(question, embedder())
    assert answering(query, ranked(query, hits(CLUB)), 2, reranker())[0].text == answer


@pytest.mark.parametrize(
    "question",
    [
        "Write a poem about autumn.",
        "How many people live in Brazil?",
        "What is Mr Petrossian's passport number?",
    ],
)
def test_nothing_takes_part_where_nothing_answers(question: str) -> None:
    assert found(question) == []


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("What is the gate code of the cabin?", 1),
        ("What is the gate code of the cabin, and what is the capital of Kenya?", 1),
        ("What is the gate code of the cabin, and what is the alarm code of the cabin?", 2),
    ],
)
def test_only_what_has_weight_for_a_question_takes_part(question: str, count: int) -> None:
    notes = [
        ("The gate code of the cabin is 4578-ZGY.", "gate.md"),
        ("The alarm code of the cabin is 5969-ZKY.", "alarm.md"),
    ]
    query = Query.of(question, embedder())
    taken = answering(query, ranked(query, hits(notes)), 2, reranker())
    assert sorted(hit.text for hit in taken) == sorted(text for text, _ in notes[:count])


def test_a_text_gets_the_same_score_on_both_sides() -> None:
    question = "When does Mrs Halvorsen come?"
    query = Query.of(question, embedder())
    device = ranked(query, hits(NOTES))
    cloud = ranked(query, hits([*NOTES[::-1], ("Paris is in France.", "France")], 9))
    scores = {hit.text: (hit.score, hit.relevance, hit.coverage) for hit in cloud}
    for hit in device:
        assert scores[hit.text] == pytest.approx((hit.score, hit.relevance, hit.coverage), abs=1e-4)
        assert hit.relevance == relevance(hit.score)
    assert [hit.score for hit in device] == sorted((hit.score for hit in device), reverse=True)


def test_words_of_what_a_document_is_about_count_as_the_passages() -> None:
    question = "When was the chain of Falcon oiled?"
    query = Query.of(question, embedder())
    (alone,) = ranked(query, hits([("The chain was oiled in May.", "")]))
    (titled,) = ranked(query, [replace(alone, about="Service record: Falcon")])
    assert (titled.coverage, alone.coverage) == (1.0, pytest.approx(10 / 16))
    assert titled.score > alone.score
    lacks, has = (features(0.0, 0.5, 1.0, question, alone.text, each) for each in ("", "Falcon"))
    assert (lacks - has).tolist() == [0, 0, 0, 0, 0, 1, 0, 0]


def test_unanswered_generated_questions_are_refused_more_often() -> None:
    """Held-out phrasings, asked of their own document and of it without the sentence."""
    facts, rng = open_facts("phrasing", None), random.Random(3)
    answered, unanswered, nearby = [], [], []
    while len(answered) < 30:
        doc = facts.document(rng)
        fact = rng.choice(doc.facts)
        question = facts.question(doc, fact, rng)
        others = [(each.sentence, "") for each in doc.facts if each.sentence != fact.sentence]
        if question is None or not others:
            continue
        query = Query.of(question, embedder())
        for texts, kept in (([*others, (fact.sentence, "")], answered), (others, unanswered)):
            best = ranked(query, hits(texts))
            taken = answering(query, best, 2, reranker())
            kept.append(any(hit.text == fact.sentence for hit in taken) or not taken)
        best = ranked(query, hits(others))
        nearby.append(all(hit.score < MINIMUM_SCORE for hit in best))
    assert sum(answered) >= 24
    # The score alone, of cosine and shared words, refuses hardly any of them.
    assert sum(unanswered) > sum(nearby) + 5


def test_the_judgement_counts_in_the_score() -> None:
    """Of two sentences with the question's words the one that answers gains on the other."""
    question = "Where does the Amazon start?"
    query = Query.of(question, embedder())
    texts = [
        ("The mouth of the Amazon lies in northern Brazil.", ""),
        ("The Amazon rises in the Andes of Peru.", ""),
    ]
    before = {hit.text: hit for hit in ranked(query, hits(texts))}
    after = {hit.text: hit for hit in answering(query, list(before.values()), 2, reranker())}
    gained = [after[text].score - before[text].score for text, _ in texts]
    assert gained[1] > gained[0]
    assert max(map(abs, gained)) <= WEIGHT * MOST
    assert all(hit.relevance == relevance(hit.score) for hit in after.values())


def test_signs_against_an_answer() -> None:
    assert kind_missing("When did it end?", "The war was long.")
    assert not kind_missing("When did it end?", "It was over in 1763.")
    assert kind_missing("How many came?", "They all came.")
    assert not kind_missing("When do they come?", "The pharmacy delivers on Fridays.")
    assert names("Did Anna Roth meet Bela in Rome?") == ["Anna Roth", "Bela", "Rome"]
    question = "Did Anna go to Rome in 1999?"
    assert features(0.5, 0.4, 0.3, question, "Anna went to Rome in 1998.")[5] == 1
    assert features(0.5, 0.4, 0.3, question, "Anna went to Rome in 1999.")[5] == 0


def test_signs_for_an_answer() -> None:
    said = "The choir sleeps in Rome at the Hostel Celica."
    question = "Where does the choir sleep in Rome?"
    *_, length, new, missing, mismatch, one = features(0.5, 0.4, 0.3, question, said)
    assert (length, new) == (math.log(1 + 9), math.log(1 + 2))  # Hostel, Celica
    assert (missing, mismatch, one) == (0, 0, 1)
    assert len(CONSTANTS) == len(features(0.5, 0.4, 0.3, question, said))
