from __future__ import annotations

import sqlite3

import pytest

from dragon.retrieval.lexical import (
    TOKENIZER,
    content_words,
    coverage,
    fused,
    lacking,
    match_expression,
    stem,
    words,
)

TEXTS = [
    "The router's passcode is K7-QX41.",
    "Größe: 4 m² — naïve façade, ÉCOLE!",
    "file_name.txt and half–dashed",
    "Ключ от кладовки, 한국어 텍스트, 東京",
]


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_those_of_the_full_text_index(text: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE t USING fts5(a, tokenize='{TOKENIZER}')")
    database.execute("INSERT INTO t VALUES (?)", [text])
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
    indexed = [term for (term,) in database.execute("SELECT term FROM v ORDER BY offset")]
    assert words(text) == indexed


def test_coverage_is_the_share_of_telling_words() -> None:
    question = "What is the passcode of the router in Größenwahn?"
    assert content_words(question) == ["passcode", "router", "großenwahn"]
    assert coverage(question, TEXTS[0]) == pytest.approx(14 / 24)  # by their letters
    assert coverage(question, TEXTS[1]) == 0
    assert coverage("What is this?", TEXTS[0]) == 0


def test_only_words_that_another_passage_has_are_lacking() -> None:
    question = "What is the printer in the office?"
    own, other = "D-97 is the printer in the office.", "59946-SQW is the printer in the shed."
    assert lacking(question, [own, other]) == pytest.approx([0.0, 6 / 13])
    assert lacking(question, [other, "A desk."]) == pytest.approx([0.0, 7 / 13])
    assert lacking("Where is the scanner?", [own, other]) == [0.0, 0.0]
    assert lacking("Who is it?", []) == []


def test_endings_do_not_matter() -> None:
    for forms in (("leave", "leaves", "leaving"), ("bake", "baked", "bakes"), ("box", "boxes")):
        assert len({stem(word) for word in forms}) == 1
    assert coverage("When does it leave?", "The coach leaves at nine.") == 1
    assert stem("one") == "one"


def test_any_question_is_a_valid_expression() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE t USING fts5(a, tokenize='{TOKENIZER}')")
    for question in ['NEAR("a" AND -b*', "a" * 9000, "x^2 OR (y) {z}: 'q'", "Ω≈ç√", "NOT"]:
        if expression := match_expression(question):
            database.execute("SELECT * FROM t(?)", [expression]).fetchall()
    assert match_expression("what is it?") == ""


def test_fusion_favours_what_both_rankings_have() -> None:
    assert fused([1, 2, 3], [9, 3, 8])[0] == 3
    assert fused([1, 2], []) == [1, 2]
    assert sorted(fused([1, 2], [2, 4])) == [1, 2, 4]
