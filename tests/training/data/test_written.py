"""The written questions: each with its answer in the text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from training.data.chains import ChainSource
from training.data.hard_negatives import Spoiler
from training.data.prose import ProseSource
from training.data.sources import SCHEMAS, open_facts
from training.data.written import read_written
from training.reranker.data import ROWS, GroupSource, typed

TEXT = "Skates are in the cellar. The rink shuts at nine."


def write(folder: Path, answer: str) -> None:
    row = {
        "text": TEXT,
        "asked": [["Until when can we go round on the ice?", answer]],
        "unasked": ["When does the rink open?"],
    }
    (folder / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


def test_an_answer_that_is_not_in_its_text_is_told(tmp_path: Path) -> None:
    write(tmp_path, "The rink shuts at ten.")
    with pytest.raises(ValueError, match=r"a.jsonl:1: an answer is not in the text"):
        read_written(tmp_path)


def test_every_text_has_questions_that_it_answers_and_others() -> None:
    texts = read_written()
    assert len(texts) > 1000
    assert all(text.asked for text in texts)
    assert all(text.unasked for text in texts)
    assert all(not set(text.unasked) & {asked for asked, _ in text.asked} for text in texts)


@pytest.fixture(scope="module")
def groups(prose: ProseSource) -> GroupSource:
    facts = open_facts("train", prose)
    return GroupSource(
        facts,
        prose,
        Spoiler({}, ["Lisbon"], ["kettle"]),
        ChainSource(SCHEMAS / "chains.txt", facts.filler),
    )


def test_how_a_question_is_typed_does_not_tell_whether_it_is_answered() -> None:
    rng = random.Random(4)
    asked, unasked = (
        [typed(question, rng) for question in questions]
        for questions in (
            [question for text in read_written() for question, _ in text.asked],
            [question for text in read_written() for question in text.unasked],
        )
    )

    def share(found: list[str], sign: Callable[[str], bool]) -> float:
        return sum(map(sign, found)) / len(found)

    for sign in (lambda text: text.endswith("?"), lambda text: text[0].isupper()):
        assert share(asked, sign) == pytest.approx(share(unasked, sign), abs=0.02)
        assert 0.8 < share(asked, sign) < 0.9


def test_a_written_question_comes_with_the_sentence_that_answers(groups: GroupSource) -> None:
    rng = random.Random(3)
    for row in groups.written[::60]:
        for question, answer in row.asked:
            group = groups.written_group(row, question, answer, rng)
            assert any(group.answers)
            assert len(group.rows) == len(group.answers) <= ROWS
        for question in row.unasked:
            assert not any(groups.written_group(row, question, None, rng).answers)
