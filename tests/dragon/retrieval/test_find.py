"""Lines that answer, of what a search found and what stands around it; which say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.retrieval.chunking import sentences
from dragon.retrieval.find import (
    TO_READ,
    TO_WRITE_FROM,
    LineReader,
    Thread,
    around,
    distinct,
    heading,
    ranked,
)
from dragon.retrieval.judge import Line, Logits, TextJudge
from dragon.retrieval.relevance import HIGHEST, Hit, relevance
from tests.samples import embedder, hits, judge


class Names:
    """Finds likely whatever line has a word, and takes down what it reads."""

    fingerprint = "names"

    def __init__(self, word: str) -> None:
        self._word = word
        self.read: list[list[Line]] = []

    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        self.read += map(list, passages)
        return [
            np.array([9.0 if self._word in line.text else -9.0 for line in passage])
            for passage in passages
        ]

    def needless(self, message: str) -> float:
        return -1.0


def numbered(*texts: str) -> list[Hit]:
    return [Hit(n, "d", "t", text, 0.0, 0.0) for n, text in enumerate(texts)]


def answering(
    questions: Sequence[str],
    best: Sequence[Hit],
    near: Mapping[int, Sequence[Hit]],
    judge: TextJudge,
    thread: Thread | None = None,
) -> list[Hit]:
    return LineReader(judge, embedder()).answering(questions, best, near, thread=thread)


def test_a_line_beside_a_candidate_may_answer() -> None:
    lines = numbered("The boiler is in the cellar.", "It was serviced in May.", "Ask Ana.")
    judge = Names("May")
    (found,) = answering(["When was the boiler serviced?"], lines[:1], {0: lines}, judge)
    assert found.text == "It was serviced in May."
    assert found.relevance == relevance(found.score) <= HIGHEST
    assert [line.text for line in judge.read[0]] == [line.text for line in lines]


def test_of_two_lines_of_the_right_form_the_one_about_the_thing_asked_for_answers() -> None:
    lines = numbered(
        "59946-SQW is the printer in the shed.",
        "D-97 is the printer in the office.",
        "- The confirmation code for the lake house is KG-860.",
        "The boat: booking code 700-W",
    )
    apart = {line.id: [line] for line in lines}
    (printer,) = answering(["What is the printer in the office?"], lines, apart, judge())
    assert printer.text.startswith("D-97")


def test_lines_of_a_report_about_somebody_answer_although_they_do_not_name_them() -> None:
    about = "Medical report\nPatient: Tobias Wrenn, born 1988"
    texts = "Patient: Tobias Wrenn, born 1988", "Height 184 cm, weight 81 kg.", "The cat is small."
    report = [replace(line, about=about if line.id < 2 else "The cat") for line in numbered(*texts)]
    asked, shorter = "How much does Tobias weigh?", "How much does weigh?"
    weight, cat = report[1].text, report[2].text
    judge = Scripted({(shorter, weight): 5.0, (shorter, cat): 5.0, (asked, weight): -3.0})
    near = {line.id: report[:2] if line.id < 2 else report[2:] for line in report}
    (found,) = answering([asked], report, near, judge)
    assert found.text == weight


def test_a_heading_is_read_where_it_changes() -> None:
    lines = [
        Hit(0, "d", "t", "Press once.", 0.0, 0.0, context="Start"),
        Hit(1, "d", "t", "Wait.", 0.0, 0.0, context="Start: Press once."),
        Hit(2, "d", "t", "Press twice.", 0.0, 0.0, context="Stop"),
    ]
    judge = Names("twice")
    answering(["How do I stop it?"], lines[:1], {0: lines}, judge)
    assert [line.above for line in judge.read[0]] == ["Start", "", "Stop"]


def test_what_is_asked_about_a_code_is_answered_where_it_is_named() -> None:
    lines = numbered("E28: no gas.", "E41: no sensor.")
    near = {line.id: [line] for line in lines}
    found = answering(["What does E41 mean?"], lines, near, Names("no"))
    assert [line.text for line in found] == ["E41: no sensor."]


def test_the_better_of_two_questions_counts() -> None:
    lines = numbered("The key is under the mat.", "The tent is in the attic.")
    near = {line.id: [line] for line in lines}
    asked = ["Where is the key?", "Where is the tent?"]
    assert len(answering(asked, lines, near, Names("is"))) == 2
    assert answering(asked, lines, near, Names("nowhere")) == []


def test_candidates_are_ranked_by_the_question_that_they_fit_best() -> None:
    texts = [("The tent is in the attic.", ""), ("Bread needs yeast.", "")]
    asked = ["Where is the tent?", "What does bread need?"]
    best = ranked(asked, embedder().embed(asked), hits(texts))
    assert all(hit.score > 0.6 for hit in best)
    assert best == ranked(asked, embedder().embed(asked), hits(texts)[::-1])


class Scripted(Names):
    """Says of each line what it is told to for a question."""

    def __init__(self, logits: dict[tuple[str, str], float]) -> None:
        super().__init__("")
        self._logits = logits

    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        return [
            np.array([self._logits.get((question, line.text), -9.0) for line in passage])
            for passage in passages
        ]


def test_a_question_that_leans_is_answered_in_the_wording_that_fits() -> None:
    fair, rain, noise = lines = numbered("It is on 19 July.", "If it rains we go inside.", "Rain.")
    near = {line.id: lines for line in lines}
    asked, alone = "And if it rains?", "What if the fair is bad?"
    judge = Scripted({(asked, rain.text): 4.0, (alone, rain.text): 1.0, (alone, fair.text): 2.0})
    thread = Thread(asked, {fair.id, rain.id, noise.id})
    first, *_ = answering([alone], lines, near, judge, thread=thread)
    assert first.text == rain.text
    alone_fits = Scripted({(asked, rain.text): -4.0, (alone, rain.text): 4.0})
    (first,) = answering([alone], lines, near, alone_fits, thread=thread)
    assert first.text == rain.text


def test_what_is_beside_what_was_said_helps_the_words_that_lean_alone() -> None:
    lines = numbered("The tent is in the attic.", "The key is under the mat.")
    near = {line.id: [line] for line in lines}
    judge = Scripted({("Where?", line.text): 3.0 for line in lines})
    thread = Thread("Where?", {lines[1].id})
    first, *_ = answering(["Where is it?"], lines, near, judge, thread=thread)
    assert first.id == lines[1].id
    thread = Thread("And?", {lines[1].id})
    same = Scripted({("Where?", lines[0].text): 4.0, ("Where?", lines[1].text): 3.0})
    first, *_ = answering(["Where?"], lines, near, same, thread=thread)
    assert first.id == lines[0].id


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
    for texts in ([one, other], [other, one]):
        assert len(distinct(numbered(*texts))) == (1 if same else 2)


def test_the_first_of_those_that_repeat_is_kept_in_order() -> None:
    texts = ["The key is blue.", "The key is red.", "the KEY is   blue", "The door is red."]
    kept = distinct(numbered(*texts))
    assert [each.text for each in kept] == [texts[0], texts[1], texts[3]]


# Passages grow around hits, within limits, and never into one another.


def line(place: int, text: str, context: str = "") -> Hit:
    return Hit(place, "a", "a.txt", text, 0.0, 0.0, context=context)


def document(lengths: list[int], first: int = 1) -> list[Hit]:
    """Sentences of so many times four bytes: about as many tokens of English."""
    return [line(first + n, "word" * length) for n, length in enumerate(lengths)]


def ids(passage: tuple[Hit, list[Hit]]) -> list[int]:
    return [line.id for line in passage[1]]


def near(lines: list[Hit]) -> dict[int, list[Hit]]:
    return {line.id: lines for line in lines}


def test_a_passage_has_the_sentences_on_both_sides_of_its_hit() -> None:
    lines = document([50] * 9)
    (passage,) = around([lines[4]], near(lines), 5)
    assert passage[0] == lines[4]
    assert ids(passage) == [4, 5, 6, 7]  # one behind it, one before it, and one more behind it
    (short,) = around([lines[4]], near(lines), 5, TO_READ)
    assert ids(short) == [5, 6]


def test_a_short_document_is_one_passage_however_often_it_is_found() -> None:
    lines = document([10, 20, 30])
    passages = around([lines[2], lines[0]], near(lines), 5)
    assert [ids(each) for each in passages] == [[1, 2, 3]]


def test_passages_do_not_overlap_and_the_best_come_first() -> None:
    lines = document([50] * 12)
    hits = [lines[7], lines[2], lines[6], lines[11]]
    passages = around(hits, near(lines), 5)
    assert [each[0].id for each in passages] == [8, 3, 12]
    assert [ids(each) for each in passages] == [[7, 8, 9, 10], [2, 3, 4, 5], [11, 12]]


def test_no_more_than_are_wanted_and_none_of_what_is_gone() -> None:
    lines = document([TO_WRITE_FROM.least // 4] * 4)
    passages = around(lines, near(lines) | {1: []}, 2)
    assert [ids(each) for each in passages] == [[2], [3]]


def test_a_sentence_longer_than_a_passage_is_one() -> None:
    lines = document([20, TO_WRITE_FROM.most // 4 + 50, 20])
    assert ids(around([lines[1]], near(lines), 1)[0]) == [2]


@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=60),
    st.lists(st.integers(0, 59), min_size=1, max_size=12, unique=True),
)
def test_passages_are_as_long_as_their_document_allows(lengths: list[int], at: list[int]) -> None:
    lines = document(lengths)
    hits = [lines[place] for place in at if place < len(lines)]
    passages = around(hits, near(lines), 5)
    every = [line for passage in passages for line in ids(passage)]
    assert len(every) == len(set(every))
    assert len(passages) <= 5
    if passages:
        first = passages[0]
        assert ids(first) == list(range(ids(first)[0], ids(first)[-1] + 1))
        length = sum(len(line.text) for line in first[1])
        # With sentences this short the first passage has its length, or all of the document.
        assert TO_WRITE_FROM.least <= length <= TO_WRITE_FROM.most or len(first[1]) == len(lines)


TEXT = """# Garden

The tap has leaked since May. The plumber comes on 4 June.

It drips at night.

## Shed: tools

The mower needs oil.
"""


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("The tap has leaked since May.", "Garden"),
        ("The plumber comes on 4 June.", "Garden"),
        ("It drips at night.", "Garden"),
        ("The mower needs oil.", "Shed: tools"),
    ],
)
def test_the_heading_is_what_is_no_sentence_of_a_context(text: str, under: str) -> None:
    found = sentences([TEXT])
    lines = [line(n, each.text, each.context) for n, each in enumerate(found)]
    assert heading(next(line for line in lines if line.text == text), lines) == under


def test_a_line_without_a_heading_stands_under_none() -> None:
    found = sentences(["First things first. Then the rest."])
    lines = [line(n, each.text, each.context) for n, each in enumerate(found)]
    assert lines[1].context == "First things first."
    assert [heading(line, lines) for line in lines] == ["", ""]
