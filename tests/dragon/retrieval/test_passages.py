"""Passages grow around hits, within limits, and never into one another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.retrieval.chunking import sentences
from dragon.retrieval.find import TO_READ, TO_WRITE_FROM, around, heading
from dragon.retrieval.relevance import Hit


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
