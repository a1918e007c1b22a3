"""The prompt of a model that writes: instruction, numbered passages, conversation, question."""

from __future__ import annotations

import pytest

from dragon.inference.tokenizer import Message
from dragon.retrieval.prompt_rows import (
    INSTRUCTION,
    NOTHING_FOUND,
    context_row,
    first_number,
    nothing_found,
    prompt,
)
from dragon.retrieval.relevance import BARE_RELEVANCE, Hit
from dragon.sampling.role import Role
from tests.templates import TEMPLATES, tokenizer


def found(title: str, context: str, text: str, relevance: float) -> Hit:
    return Hit(1, title, title, text, 0.0, relevance, context=context)


PASSAGES = [
    found("garden.md", "Shed", "The key is under the blue pot.", 12.0),
    found("house.md", "", "The tap has leaked since May.\nIt drips at night.", 5.0),
    found("log.txt", "", "On Monday it rained.", 2.0),
]
TALK = [
    Message("user", "Where is the key?"),
    Message("assistant", "Under the blue pot [1]."),
    Message("user", "And the mower?"),
]
LISTED = (
    f"{INSTRUCTION}\n\n[1] garden.md, Shed: The key is under the blue pot.\n\n"
    "[2] house.md: The tap has leaked since May.\nIt drips at night.\n\n"
    "[3] log.txt: On Monday it rained."
)


def test_passages_are_numbered_with_title_and_heading() -> None:
    assert prompt(PASSAGES, 1) == LISTED


def test_numbers_of_the_two_sides_never_meet_and_say_nothing_of_what_was_found() -> None:
    for top_k in (1, 2, 5, 32):
        device, cloud = (first_number(side, top_k) for side in Role)
        assert device == 1
        assert device + top_k == cloud
    assert prompt(PASSAGES[:1], first_number(Role.CLOUD, 5)).endswith(
        "[6] garden.md, Shed: The key is under the blue pot."
    )


@pytest.mark.parametrize("name", TEMPLATES)
def test_through_a_models_own_template_the_question_is_last(name: str) -> None:
    of = tokenizer(name)
    row, kept = context_row(of, PASSAGES, 10_000, 1)
    assert kept == PASSAGES
    assert row.relevance == 12.0
    told = of.decode([*row.tokens, *of.conversation(TALK)], special=True)
    parts = [LISTED, *(message.content for message in TALK)]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)
    assert all(told.count(part) == 1 for part in parts)
    # The row ends with the passages and what closes them: the same conversation follows any row.
    closed = of.decode(row.tokens, special=True).partition("On Monday it rained.")[2]
    assert of.decode(of.document_row(""), special=True).endswith(closed)


def test_what_does_not_fit_is_left_out_from_the_worst() -> None:
    of = tokenizer("qwen")
    sizes = [len(of.document_row(prompt(PASSAGES[:count], 4))) for count in (1, 2, 3)]
    for room, count in [(sizes[2], 3), (sizes[2] - 1, 2), (sizes[1] - 1, 1), (sizes[0] - 1, 0)]:
        row, kept = context_row(of, PASSAGES, room, 4)
        assert kept == PASSAGES[:count]
        if kept:
            assert len(row.tokens) <= room
            assert row.tokens == tuple(of.document_row(prompt(kept, 4)))
        else:
            assert row == nothing_found(of)
            assert row.relevance == BARE_RELEVANCE
            assert NOTHING_FOUND in of.decode(row.tokens)
