"""Passages become rows of the prompt: those that fit, or the bare row; and are re-scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.retrieval.prompt_rows import (
    INSTRUCTION,
    NOTHING_FOUND,
    RECENT_TOKENS,
    Answers,
    context_row,
    continuing,
    document_rows,
    first_number,
    nothing_found,
    prompt,
    rescoring,
)
from dragon.retrieval.relevance import BARE_RELEVANCE, Hit
from dragon.sampling.params import MAX_SLOPE
from dragon.sampling.role import Role
from harness.letters import Letters
from harness.models import SMALL_MODEL
from harness.reference import Passage
from tests.samples import embedder, hits
from tests.templates import TEMPLATES
from tests.templates import tokenizer as of_template

PASSAGES = [
    Passage("The key is under the mat.", 0.5, "a"),
    Passage("The key " * 100, 0.75, "b"),
    Passage("The door is red.", 0.25, "c"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.mark.parametrize("raw", [False, True])
def test_passages_that_fit_keep_their_order_and_relevance(
    tokenizer: Tokenizer, *, raw: bool
) -> None:
    rows, kept = document_rows(tokenizer, PASSAGES, 60, raw=raw, quotes=False)
    assert kept == [PASSAGES[0], PASSAGES[2]]
    assert rows == [
        Row(tuple(tokenizer.document_row(p.text, raw=raw)), p.relevance, p.document) for p in kept
    ]


@pytest.mark.parametrize("raw", [False, True])
def test_without_a_passage_that_fits_there_is_the_bare_row(
    tokenizer: Tokenizer, *, raw: bool
) -> None:
    rows, kept = document_rows(tokenizer, PASSAGES[1:2], 60, raw=raw, quotes=False)
    assert kept == []
    assert rows == [Row(tuple(tokenizer.bare_row(raw=raw)), BARE_RELEVANCE)]


def test_a_passage_is_quoted_behind_what_the_answer_begins_with(tokenizer: Tokenizer) -> None:
    begun = tuple(tokenizer.encode("Ada moved in on 3 May."))
    rows, _ = document_rows(
        tokenizer, PASSAGES[2:], 60, raw=False, quotes=True, premise=begun
    )  # fmt: skip
    (quote,) = rows[0].quotes
    assert tokenizer.decode(quote.first) == f"Ada moved in on 3 May. {PASSAGES[2].text}"
    assert quote.first[: len(begun)] == begun
    rows, kept = document_rows(tokenizer, [], 60, raw=False, quotes=True, premise=begun)
    assert ([each.first for each in rows[0].quotes], kept) == ([begun], [])


def test_a_quoted_list_keeps_its_lines(tokenizer: Tokenizer) -> None:
    listed = Passage("Bring  the\nkeys:\n\n1. Rake\n- Rest - well.\n", 0.5, "a")
    ((row,), _) = document_rows(tokenizer, [listed], 60, raw=False, quotes=True)
    assert tokenizer.decode(row.quotes[0].first) == "Bring the keys:\n1. Rake\n- Rest - well."


def test_a_text_is_continued_from_what_is_near_not_from_what_answers() -> None:
    near, far = hits([("The lamp is lit.", ""), ("Quiz: jazz, fjords?", "")])
    near, far = (replace(hit, vector=None, relevance=nats) for hit, nats in ((near, 1), (far, 9)))
    letters = Letters()
    asked, *vectors = letters.embed(["The lamp is lit at", near.text, far.text])
    weighed = continuing(letters, "The lamp is lit at", [far, near], 10.0)
    assert [hit.text for hit in weighed] == [near.text, far.text]
    assert [hit.relevance for hit in weighed] == pytest.approx(
        [10 * float(vector @ asked) for vector in vectors], rel=1e-5
    )
    alike = continuing(letters, "The lamp is lit at", [far, near], 0.0)
    assert [hit.relevance for hit in alike] == [0, 0]


def test_a_side_with_a_passage_counts_more_than_one_without() -> None:
    (hit,) = hits([("The lamp is lit.", "")])
    opposite = replace(hit, vector=-Letters().embed(["The lamp"])[0])
    (weighed,) = continuing(Letters(), "The lamp", [opposite], MAX_SLOPE)
    assert weighed.relevance > BARE_RELEVANCE


@pytest.mark.parametrize(
    ("setting", "quotes", "expected"),
    [
        (None, True, Answers.QUOTES),
        (None, False, Answers.WORDS),
        ("words", True, Answers.WORDS),
        ("quotes", False, Answers.QUOTES),
    ],
)
def test_the_setting_rules_and_else_the_model(
    setting: str | None, expected: Answers, *, quotes: bool
) -> None:
    assert Answers.of(setting, quotes=quotes) is expected


def test_a_text_to_continue_has_rows_weighed_by_cosine_unless_the_model_quotes() -> None:
    for style in Answers:
        assert (style.on(raw=False), style.continues(raw=False)) == (style, False)
        quotes = style is Answers.QUOTES
        assert style.on(raw=True) is (Answers.QUOTES if quotes else Answers.ROWS)
        assert style.continues(raw=True) is not quotes


# Documents gain as the text comes to speak of them.

SLOPE = 20.0
QUESTION = "What do I have to bring?"
DOCUMENTS = ("The dentist asked for the insurance card.", "The hikers need boots and a rope.")


def test_relevance_is_that_of_question_and_text(tokenizer: Tokenizer) -> None:
    vectors = embedder().embed(DOCUMENTS)
    rows = [
        Row((1,), 0.0, vector=vectors[0]),
        Row((2,), 0.0, vector=vectors[1]),
        Row((3,), BARE_RELEVANCE),
    ]
    made = rescoring(embedder(), tokenizer, QUESTION, rows, 8, SLOPE)
    assert made.every == 8
    text = " For the climb in the mountains you have to bring"
    dentist, hike, bare = made.relevance(tokenizer.encode(text))
    asked, running = embedder().embed([QUESTION, f"{QUESTION} {text}"])
    gained = [SLOPE * float(v @ (running - asked)) for v in vectors]
    assert np.allclose([dentist, hike], gained, atol=1e-3)
    assert hike > dentist
    assert bare == BARE_RELEVANCE


def test_the_newest_tokens_count(tokenizer: Tokenizer) -> None:
    rows = [Row((1,), 0.0, vector=embedder().embed(DOCUMENTS)[1])]
    made = rescoring(embedder(), tokenizer, QUESTION, rows, 8, SLOPE)
    text = tokenizer.encode(" word" * 500 + " rope and boots")
    assert made.relevance(text) == made.relevance(text[-RECENT_TOKENS:])


def test_nothing_to_rescore(tokenizer: Tokenizer) -> None:
    document = Row((1,), 0.0, embedder().embed(DOCUMENTS)[0])
    assert rescoring(embedder(), tokenizer, QUESTION, [document], 0, SLOPE) is None
    assert rescoring(embedder(), tokenizer, QUESTION, [Row((1,), BARE_RELEVANCE)], 8, SLOPE) is None


# The prompt of a model that writes: instruction, numbered passages, conversation, question.


def found(title: str, context: str, text: str, relevance: float) -> Hit:
    return Hit(1, title, title, text, 0.0, relevance, context=context)


FOUND = [
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
    assert prompt(FOUND, 1) == LISTED


def test_numbers_of_the_two_sides_never_meet_and_say_nothing_of_what_was_found() -> None:
    for top_k in (1, 2, 5, 32):
        device, cloud = (first_number(side, top_k) for side in Role)
        assert device == 1
        assert device + top_k == cloud
    assert prompt(FOUND[:1], first_number(Role.CLOUD, 5)).endswith(
        "[6] garden.md, Shed: The key is under the blue pot."
    )


@pytest.mark.parametrize("name", TEMPLATES)
def test_through_a_models_own_template_the_question_is_last(name: str) -> None:
    of = of_template(name)
    row, kept = context_row(of, FOUND, 10_000, 1)
    assert kept == FOUND
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
    of = of_template("qwen")
    sizes = [len(of.document_row(prompt(FOUND[:count], 4))) for count in (1, 2, 3)]
    for room, count in [(sizes[2], 3), (sizes[2] - 1, 2), (sizes[1] - 1, 1), (sizes[0] - 1, 0)]:
        row, kept = context_row(of, FOUND, room, 4)
        assert kept == FOUND[:count]
        if kept:
            assert len(row.tokens) <= room
            assert row.tokens == tuple(of.document_row(prompt(kept, 4)))
        else:
            assert row == nothing_found(of)
            assert row.relevance == BARE_RELEVANCE
            assert NOTHING_FOUND in of.decode(row.tokens)
