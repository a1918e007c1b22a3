"""Lines that answer, of what a search found and what stands around it; which say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dragon.retrieval.find import LineReader, Thread, distinct, ranked
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
