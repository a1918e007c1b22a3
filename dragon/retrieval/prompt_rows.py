"""Turns retrieved passages into the rows of a side.

A model that quotes writes the passage of each row, and `NO_ANSWER` if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dragon.inference.quotes import Quote
from dragon.inference.rows import Begins, Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.relevance import BARE_RELEVANCE

NO_ANSWER = "I found no direct answer."


class Passage(Protocol):
    """A retrieved text, the id of its document, and its relevance in nats.

    `vector` float32 [dim] is its embedding, if known.
    """

    @property
    def document(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def relevance(self) -> float: ...

    @property
    def vector(self) -> npt.NDArray[np.float32] | None: ...


P = TypeVar("P", bound=Passage)


def document_row(
    tokenizer: Tokenizer,
    text: str,
    document: str,
    relevance: float = 0.0,
    *,
    raw: bool,
    begins: Begins = Begins.TURNS,
) -> Row:
    """The row of one text of a document, the same for the KV cache and for answers."""
    row = tokenizer.document_row(text, raw=raw, begins=begins)
    return Row(tuple(row), relevance, document)


def bare_row(
    tokenizer: Tokenizer, *, raw: bool, quotes: bool, begins: Begins = Begins.TURNS
) -> Row:
    """The row of a side without passages."""
    quoted = quotes_of(tokenizer, [NO_ANSWER]) if quotes and not raw else ()
    return Row(tuple(tokenizer.bare_row(raw=raw, begins=begins)), BARE_RELEVANCE, quotes=quoted)


def quotes_of(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Quote, ...]:
    """These texts as quotes, one line each."""
    lines = [" ".join(text.split()) for text in texts]
    return tuple(
        Quote(tuple(tokenizer.encode(line)), tuple(tokenizer.encode(f" {line}"))) for line in lines
    )


def document_rows(
    tokenizer: Tokenizer,
    passages: Sequence[P],
    room: int,
    *,
    raw: bool,
    quotes: bool,
    begins: Begins = Begins.TURNS,
) -> tuple[list[Row], list[P]]:
    """A row for each passage of at most `room` tokens, and those passages.

    A side without passages takes part with its bare row. `quotes`: the model only quotes, unless
    the prompt is `raw`.
    """
    rows, kept = [], []
    for passage in passages:
        row = document_row(
            tokenizer, passage.text, passage.document, passage.relevance, raw=raw, begins=begins
        )
        if len(row.tokens) <= room:
            quoted = quotes_of(tokenizer, [passage.text]) if quotes and not raw else ()
            rows.append(replace(row, vector=passage.vector, quotes=quoted))
            kept.append(passage)
    return rows or [bare_row(tokenizer, raw=raw, quotes=quotes, begins=begins)], kept
