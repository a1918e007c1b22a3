"""From what a search found to the rows of a side."""

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
    """A text, the id of the document it is from, and how relevant it is, in nats.

    `vector` is the embedding it was found by, if known; `coverage` the share of the question's
    words in it, `judgement` what its score gains by how likely it answers.
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
    """The row of a text of a document: what is computed ahead and what answers ask for."""
    return Row(tuple(tokenizer.document_row(text, raw=raw)), relevance, document)


def document_rows(
    tokenizer: Tokenizer, passages: Sequence[P], room: int, *, raw: bool
) -> tuple[list[Row], list[P]]:
    """A row a passage, for those that take at most `room` tokens, and which those are.

    A side with none takes part with its bare row.
    """
    rows, kept = [], []
    for passage in passages:
        row = document_row(tokenizer, passage.text, passage.document, passage.relevance, raw=raw)
        if len(row.tokens) <= room:
            row = replace(row, vector=passage.vector, coverage=passage.coverage)
            rows.append(replace(row, judgement=passage.judgement))
            kept.append(passage)
    return rows or [Row(tuple(tokenizer.bare_row(raw=raw)), BARE_RELEVANCE)], kept
