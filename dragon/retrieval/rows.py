"""From what a search found to the rows of a side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dragon.decoder import Row
from dragon.retrieval.relevance import BARE_RELEVANCE
from dragon.tokenizer import Tokenizer


class Passage(Protocol):
    """A text, how relevant it is, in nats, and the embedding it was found by, if known."""

    @property
    def text(self) -> str: ...

    @property
    def relevance(self) -> float: ...

    @property
    def vector(self) -> npt.NDArray[np.float32] | None: ...


P = TypeVar("P", bound=Passage)


def document_rows(
    tokenizer: Tokenizer, passages: Sequence[P], room: int, *, raw: bool
) -> tuple[list[Row], list[P]]:
    """A row a passage, for those that take at most `room` tokens, and which those are.

    A side with none takes part with its bare row.
    """
    rows, kept = [], []
    for passage in passages:
        tokens = tokenizer.document_row(passage.text, raw=raw)
        if len(tokens) <= room:
            rows.append(Row(tuple(tokens), passage.relevance, passage.vector))
            kept.append(passage)
    return rows or [Row(tuple(tokenizer.bare_row(raw=raw)), BARE_RELEVANCE)], kept
