"""Turns retrieved passages into the rows of a side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.relevance import BARE_RELEVANCE


class Passage(Protocol):
    """A retrieved text, the id of its document, and its relevance in nats.

    `vector` float32 [dim] is its embedding, if known; `coverage` the share of the question's words
    in it; `judgement` the adjustment of its score by answerability.
    """

    @property
    def document(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def relevance(self) -> float: ...

    @property
    def coverage(self) -> float: ...

    @property
    def judgement(self) -> float: ...

    @property
    def vector(self) -> npt.NDArray[np.float32] | None: ...


P = TypeVar("P", bound=Passage)


def document_row(
    tokenizer: Tokenizer, text: str, document: str, relevance: float = 0.0, *, raw: bool
) -> Row:
    """The row of one text of a document, the same for the KV cache and for answers."""
    return Row(tuple(tokenizer.document_row(text, raw=raw)), relevance, document)


def document_rows(
    tokenizer: Tokenizer, passages: Sequence[P], room: int, *, raw: bool
) -> tuple[list[Row], list[P]]:
    """A row for each passage of at most `room` tokens, and those passages.

    A side without any takes part with its bare row.
    """
    rows, kept = [], []
    for passage in passages:
        row = document_row(tokenizer, passage.text, passage.document, passage.relevance, raw=raw)
        if len(row.tokens) <= room:
            row = replace(row, vector=passage.vector, coverage=passage.coverage)
            rows.append(replace(row, judgement=passage.judgement))
            kept.append(passage)
    return rows or [Row(tuple(tokenizer.bare_row(raw=raw)), BARE_RELEVANCE)], kept
