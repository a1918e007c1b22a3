from __future__ import annotations

import sqlite3

import pytest

from dragon.retrieval.lexical import (
    TOKENIZER,
    content_words,
    corrected,
    coverage,
    doubtful,
    fused,
    lacking,
    match_expression,
    slips,
    stem,
    without,
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


def test_short_words_names_and_codes_are_not_doubted() -> None:
    asked = "Does Abernathy know if plot B1234 of café owners isn't the gaet's, or the gate?"
    assert doubtful(asked) == ["does", "know", "plot", "owners", "gate"]
    assert doubtful("  Fliter?") == ["fliter"]
    assert doubtful("") == []


def test_what_nobody_writes_costs_nothing() -> None:
    """The words one slip away from 4,000 letters take a gigabyte."""
    assert doubtful(f"Where is the {'ab' * 2000}?") == ["where"]
    letters = "abcdefghijklmnopqrst"
    many = [f"{a}{b}{c}{c}" for a in letters for b in letters for c in letters]
    assert doubtful(" ".join(many)) == many[:64]


def test_a_slip_is_a_letter_too_much_too_few_wrong_or_two_that_changed_places() -> None:
    once = ["gaet", "gat", "gatte", "gare", "ate", "gates", "agte", "rate"]
    assert all("gate" in slips(word) for word in once)
    assert not any("gate" in slips(word) for word in ("gate", "gait", "great", "", "etag"))


@pytest.mark.parametrize(
    ("question", "near", "expected"),
    [
        ("Where is the fliter?", {"fliter": "filter"}, "Where is the filter?"),
        ("Fliter, or the fliter?", {"fliter": "filter"}, "filter, or the filter?"),
        ("What colour is the horse?", {"horse": "house"}, "What colour is the horse?"),
        ("Wann kommt der Mieter?", {"mieter": "miete"}, "Wann kommt der Mieter?"),
        ("Is Fliter the fliters' name?", {"fliter": "filter"}, "Is Fliter the fliters' name?"),
    ],
)
def test_what_is_no_word_is_replaced(question: str, near: dict[str, str], expected: str) -> None:
    assert corrected(question, near) == expected


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Wie oft war ich bei der Ärztin?", ["war", "arztin"]),
        ("¿Cuánto cuesta la excursión de los niños?", ["cuesta", "excursion", "ninos"]),
        ("Combien est-ce que la chambre coûte par nuit ?", ["chambre", "coute", "par", "nuit"]),
        ("How many sons died in the war?", ["sons", "died", "war"]),
        ("Where does Ella meet Les and Al?", ["ella", "meet", "les", "al"]),
    ],
)
def test_words_of_every_sentence_tell_nothing(question: str, said: list[str]) -> None:
    assert content_words(question) == said


@pytest.mark.parametrize(
    ("question", "shorter"),
    [
        ("What was Tobias's blood pressure?", "What was blood pressure?"),
        ("When does the clinic open?", "When does the open?"),
        ("What\nwas  the clinic's number?", "What was the number?"),
        ("Which doctor saw the patient in 1988?", ""),
        ("Where  is the car park?", ""),
        ("What did Tobias write to Ada?", ""),
    ],
)
def test_a_question_is_shortened_by_the_names_of_what_a_document_is_about(
    question: str, shorter: str
) -> None:
    about = "Ilse's Clinic\nPatient: Tobias Wrenn, born 1988\nTo: Ada Orr\nParking: car park, quay"
    assert without(question, about) == shorter


def test_who_wrote_to_whom_is_no_name_of_what_a_mail_is_about() -> None:
    mail = "From: Ada Orr <ada@post.example>\nTo: Ben Holt\nSubject: Boiler"
    assert without("What did Ben write to Ada?", mail) == ""
    assert without("When does Ada come?", mail) == "When does come?"
