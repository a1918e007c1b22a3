from __future__ import annotations

import sqlite3

import pytest

from dragon.retrieval.duplicates import alike
from dragon.retrieval.lexical import (
    TOKENIZER,
    content_words,
    coverage,
    fused,
    match_expression,
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
    assert coverage(question, TEXTS[0]) == pytest.approx(2 / 3)
    assert coverage(question, TEXTS[1]) == 0
    assert coverage("What is this?", TEXTS[0]) == 0


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


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The key is blue.", "the KEY is   blue", True),
        ("The key hangs on a hook by the old green door of the hut in the valley.",
         "The key hangs on a hook by the green door of the hut in the valley.", True),
        ("The code of the safe on the left of the door is 7731 since the last repair.",
         "The code of the safe on the left of the door is 7732 since the last repair.", False),
        ("In May we met Anna at the station by the river and went up to the hut with her.",
         "In May we met Bob at the station by the river and went up to the hut with her.", False),
        ("The key is blue.", "The key is red.", False),
    ],
)  # fmt: skip
def test_what_says_the_same(one: str, other: str, *, same: bool) -> None:
    assert alike(one, other) is same
    assert alike(other, one) is same
