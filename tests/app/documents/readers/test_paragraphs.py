"""What was broken to fit a width is joined, and nothing else is."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.readers.paragraphs import paragraphs, unwrapped

PROSE = (
    "The society decided that the new fence along the northern side of the orchard will be built "
    "by the firm Holzer, which asks 3,480 euros for it, and that the work begins on the first "
    "Monday of September, when Mrs Lindqvist is back from Oslo and can open the gate."
)


@given(st.integers(46, 100))
def test_a_paragraph_is_one_line_whatever_it_was_wrapped_to(width: int) -> None:
    wrapped = textwrap.fill(PROSE, width)
    assert paragraphs(f"# Fence\n\n{wrapped}\n\nAnna") == f"# Fence\n\n{PROSE}\n\nAnna"


@pytest.mark.parametrize(
    "text",
    [
        "milk\nbread\nsalt\nrice",
        "- milk from the farm behind the church\n- bread from the baker in the village square",
        "1. First open the valve.\n2. Then wait.",
        "Anna Roth\nGärtnerweg 4\n8000 Zürich",
        "Room 12 has a piano.\nRoom 21 has a harp.",
        "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both\n"
        "And be one traveler, long I stood\nAnd looked down one as far as I could",
        "2026-03-01 INFO the worker has started with eight of the nine threads\n"
        "2026-03-02 INFO the worker has stopped with eight of the nine threads",
        "```\na line of code that is as long as one of prose that was wrapped\nand goes\n```",
        "From: Anna <anna@example.org>\nTo: Bela <bela@example.org>, Carla <carla@example.org>",
        "name: Ann; city: Rome; street: Via Appia Antica; number: 45\nname: Bob; city: Oslo",
    ],
)
def test_lists_verse_addresses_and_code_keep_their_lines(text: str) -> None:
    assert paragraphs(text) == text


def test_a_line_of_prose_may_begin_with_a_time_or_a_date() -> None:
    text = "The museum is open on every day but Monday from 9 until\n19.30, and it costs 10 euros."
    assert paragraphs(text) == text.replace("\n", " ")


def test_an_item_goes_on_where_it_is_indented() -> None:
    text = "1. First open the\n   valve to the left.\n2. Then wait until the\n   needle moves."
    assert (
        paragraphs(text)
        == "1. First open the valve to the left.\n2. Then wait until the needle moves."
    )


def test_words_and_numbers_that_a_line_divides_are_whole() -> None:
    assert unwrapped("The policy number is AM-55-\r\n2093.") == "The policy number is AM-55-2093."
    assert unwrapped("It is in Novem\ufffe\r\nber.") == "It is in November."
    assert unwrapped("It is behind the boat-\nhouse.") == "It is behind the boathouse."
