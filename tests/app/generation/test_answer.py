"""Citations in an answer, and when drafts were made and tokens became text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.generation import answer
from app.generation.answer import Citations, Trace
from app.generation.events import Citation, Source
from dragon.sampling.role import Role

# The device has found two passages, the cloud three of the five that it may use.
SOURCES = [
    Source("private" if number < 6 else "public", f"d{number}", "t", "x", 0.9, 0.5, citation=number)
    for number in (1, 2, 6, 7, 8)
]


def cited(text: str, pieces: list[str], sources: list[Source] = SOURCES) -> list[tuple[str, int]]:
    """The numbers cited, as they stand in the text, and the indices of their sources."""
    reader = Citations()
    found: list[Citation] = []
    for piece in pieces:
        found += reader.read(piece, sources)
    return [(text[each.start : each.end], each.source) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is under the pot [1].", [("1", 0)]),
        ("[2] says so [6][7].", [("2", 1), ("6", 2), ("7", 3)]),
        ("Both [1, 8] and [ 2 ].", [("1", 0), ("8", 4), ("2", 1)]),
        ("No such passages: [3] [5] [9] [60] [0].", []),
        ("Half of them: [1, 3].", [("1", 0)]),
        ("Not cited: [a], [1.5], [x1], [1, (1), [], [1234], 1.", []),
        ("[[2]] and [1][", [("2", 1), ("1", 0)]),
    ],
)
def test_numbers_in_brackets_are_those_of_sources(
    text: str, expected: list[tuple[str, int]]
) -> None:
    assert cited(text, [text]) == expected
    assert cited(text, list(text)) == expected


@given(st.text("[]12 ,6a", max_size=30), st.data())
def test_pieces_say_what_the_whole_says(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert cited(text, pieces) == cited(text, [text])


def test_sources_that_are_not_cited_have_no_numbers() -> None:
    quoted = [Source("private", "d", "t", "x", 0.9, 1.0)]
    assert cited("See [1].", ["See [1]."], quoted) == []


def test_the_clouds_passages_count_once_they_are_there() -> None:
    reader = Citations()
    assert reader.read("As in [6], ", SOURCES[:2]) == []
    assert reader.read("or in [6].", SOURCES) == [Citation(18, 19, 2)]


def test_when_drafts_were_made_and_tokens_became_text() -> None:
    noted = Trace()
    noted.draft(Role.DEVICE, 0, 5000)
    noted.draft(Role.CLOUD, 0, 5000, underway=0.1)
    noted.text(0, 2)
    (_, _, begun, sent), (_, _, cloud_begun, cloud_done), *text = noted.entries
    assert [entry[0] for entry in noted.entries] == ["d", "c", "t", "t"]
    assert [entry[1] for entry in text] == [0, 1]
    assert sent - begun == 5.0
    assert cloud_done - cloud_begun == 5.0
    assert cloud_done <= sent - 90


def test_it_is_bounded() -> None:
    noted = Trace()
    noted.text(0, 10 * answer._MOST)
    assert len(noted.entries) == answer._MOST
