"""The prompt of a model that writes: numbered passages in one row, before the conversation.

Each side numbers its passages without knowing the other's: the device from 1, the cloud from one
more than the most that a side may use. That number is part of the request, so neither side learns
how many passages the other has found, and no number stands for two passages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from dragon.inference.grounding import Grounding
from dragon.inference.rows import Begins, Row
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.writer import lines_prompt
from dragon.retrieval.prompt_rows import bare_row, document_rows
from dragon.retrieval.relevance import BARE_RELEVANCE, HIGHEST, Hit
from dragon.sampling.role import Role

INSTRUCTION = (
    "Answer the last question from the passages below, in your own words. Cite the passages that "
    "you use by their numbers, as in [1] or [2] [3]. If they do not answer the question, say so."
)
NOTHING_FOUND = (
    "No passage was found for the last question. Answer it from the conversation, or say that you "
    "do not know."
)

MOST_LINES = 2
LIKELY = 0.0
"""The least relevance, in nats, for writing a reply: the line answers as likely as not."""
_LONGEST = 600  # the most characters of a line that a reply is written from
_DENIES = re.compile(r"\b(?:not|never|nor|neither|cannot)\b|n['’]t\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_FLUENT = 2.6  # letters per token: English has 2.6 or more, other languages have fewer


H = TypeVar("H", bound=Hit)


def first_number(side: Role, top_k: int) -> int:
    """The number of a side's first passage if each side may use `top_k`."""
    return 1 if side is Role.DEVICE else 1 + top_k


def context_row(
    tokenizer: Tokenizer,
    passages: Sequence[H],
    room: int,
    first: int,
    begins: Begins = Begins.TURNS,
) -> tuple[Row, list[H]]:
    """A row of at most `room` tokens, and the passages in it, numbered from `first`.

    The best come first; the worst are dropped if there is no room.
    """
    kept = list(passages)
    while kept:
        tokens = tokenizer.document_row(prompt(kept, first), begins=begins)
        if len(tokens) <= room:
            return Row(tuple(tokens), kept[0].relevance), kept
        kept.pop()
    return nothing_found(tokenizer, begins), []


def lines_row(
    tokenizer: Tokenizer, lines: Sequence[H], question: str, room: int, first: int
) -> tuple[Row, list[H]]:
    """A row with at most two lines to write a reply from, numbered from `first`.

    A line is quoted instead if it was computed, is long, is a list or a row of a table, may not
    answer, is in a language that the model does not write well, or denies something: a lost "not"
    turns it round.
    """
    best = lines[0]
    if (
        not LIKELY <= best.relevance < HIGHEST
        or len(best.text) > _LONGEST
        or "\n" in best.text
        or best.tabular
        or _DENIES.search(best.text)
        or not _fluent(tokenizer, f"{question} {best.text}")
    ):
        quoted = document_rows(tokenizer, [best], room, raw=False, quotes=True)
        return quoted[0][0], quoted[1]
    kept = list(lines[:MOST_LINES])
    while kept:
        shown = [(line.context, line.text) for line in kept]
        tokens = tokenizer.document_row(lines_prompt(shown, first))
        if len(tokens) <= room:
            sources = [question, *(text for line in shown for text in line)]
            cited = range(first, first + len(kept))
            grounding = Grounding(tokenizer, sources, cited, tokenizer.end_ids)
            return Row(tuple(tokens), best.relevance, grounding=grounding), kept
        kept.pop()
    return bare_row(tokenizer, raw=False, quotes=True), []


def _fluent(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text is in the model's own language: others take more tokens per letter."""
    spoken = " ".join(_LETTERS.findall(text))
    return len(spoken.replace(" ", "")) >= _FLUENT * len(tokenizer.encode(f" {spoken}"))


def nothing_found(tokenizer: Tokenizer, begins: Begins = Begins.TURNS) -> Row:
    """The row of a side that found nothing."""
    row = tokenizer.document_row(NOTHING_FOUND, begins=begins)
    return Row(tuple(row), BARE_RELEVANCE)


def prompt(passages: Sequence[Hit], first: int) -> str:
    """The instruction and the passages."""
    numbered = [
        f"[{number}] {', '.join(filter(None, (passage.title, passage.context)))}: {passage.text}"
        for number, passage in enumerate(passages, first)
    ]
    return "\n\n".join([INSTRUCTION, *numbered])
