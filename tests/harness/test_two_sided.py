"""The questions of the two-sided benchmark: enough, and fair."""

from __future__ import annotations

import csv
from collections import Counter

from harness.services import DEMO_CORPUS
from harness.two_sided import QUESTIONS, read, spread


def test_there_are_enough_and_half_are_written_by_hand() -> None:
    counts = Counter((question.side, question.by) for question in read(QUESTIONS))
    assert counts == {
        ("private", "hand"): 100,
        ("private", "template"): 100,
        ("public", "hand"): 100,
        ("public", "template"): 100,
        ("both", "hand"): 30,
    }
    texts = [question.text for question in read(QUESTIONS)]
    assert len(set(texts)) == len(texts)


def test_every_answer_stands_where_it_should_and_not_in_the_question() -> None:
    with DEMO_CORPUS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        corpus = " ".join(row["text"] for row in rows)
    for question in read(QUESTIONS):
        holder = question.note if question.side == "private" else corpus
        assert question.answered_by(holder or ""), question
        assert not question.answered_by(question.text), question
        assert (question.note is not None) == (question.side != "public"), question
        if question.side == "both":
            assert not question.answered_by(question.note or ""), question


def test_a_few_questions_are_of_all_kinds() -> None:
    chosen = spread(read(QUESTIONS), 10)
    counts = Counter((question.side, question.by) for question in chosen)
    assert counts["private", "hand"] == counts["private", "template"] == 5
    assert counts["public", "hand"] == counts["public", "template"] == 5
    assert counts["both", "hand"] == 10
