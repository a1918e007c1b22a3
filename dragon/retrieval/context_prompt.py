"""The prompt of a model that writes: numbered passages in one row, before the conversation.

Each side numbers its passages without knowing the other's: the device from 1, the cloud from one
more than the most that a side may use. That number is part of the request, so neither side learns
how many passages the other has found, and no number stands for two passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dragon.inference.rows import Begins, Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.relevance import BARE_RELEVANCE, Hit
from dragon.sampling.role import Role

INSTRUCTION = (
    "Answer the last question from the passages below, in your own words. Cite the passages that "
    "you use by their numbers, as in [1] or [2] [3]. If they do not answer the question, say so."
)
NOTHING_FOUND = (
    "No passage was found for the last question. Answer it from the conversation, or say that you "
    "do not know."
)

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
