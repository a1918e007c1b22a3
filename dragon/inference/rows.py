"""What stands before the conversation in one row of a side."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dragon.inference.quotes import Quote


@dataclass(frozen=True)
class Row:
    """What stands before the conversation in one row, and how relevant it is, in nats.

    `document` is the id of the document it is from: its keys and values may be kept for as long as
    that document is. `kv` is given when another side with the same model has computed them; as
    `KV.pack` made it. `vector` float32 [dim] is its document's embedding, `coverage` the share of
    the question's words in it and `judgement` what its score gains by how likely it answers, which
    re-scoring needs. `quotes` are all that a quoting model may write in it.
    """

    tokens: tuple[int, ...]
    relevance: float
    document: str = ""
    kv: bytes | None = None
    vector: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    coverage: float = field(default=0.0, compare=False)
    judgement: float = field(default=0.0, compare=False)
    quotes: tuple[Quote, ...] = ()


def room_for_document(context: int, conversation: int, answer: int) -> int:
    """Tokens a document may take: it leaves room for the answer, or for half of what is left."""
    left = context - conversation
    return left - min(answer, left // 2 + 1)
