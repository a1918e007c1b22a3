"""What precedes the conversation in a row of one side, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from dragon.inference.quotes import Quote


class Begins(StrEnum):
    """What a conversation's tokens begin with: it decides what surrounds a document in the row.

    Both sides build the same rows from it.
    """

    TURNS = "turns"  # turns only: a document is a system message, or begins the first question
    SYSTEM = "system"  # the client's own instructions, after the document
    TOOLS = "tools"  # tools, without instructions
    BOTH = "both"
    ALL = "all"  # everything: the template has some other order


@dataclass(frozen=True)
class Row:
    """What precedes the conversation in one row, and how relevant it is, in nats.

    `document` is the id of its document: its keys and values may be kept as long as that document
    is. `kv`, in the form of `KV.pack`, is given if another side with the same model has computed
    it. `vector` float32 [dim] is its document's embedding, which re-scoring needs. `quotes` are all
    that may be written in it.
    """

    tokens: tuple[int, ...]
    relevance: float
    document: str = ""
    kv: bytes | None = None
    vector: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    quotes: tuple[Quote, ...] = ()


def room_for_document(context: int, conversation: int, answer: int) -> int:
    """Tokens a document may take: it leaves room for the answer, or for half of what is left."""
    left = context - conversation
    return left - min(answer, left // 2 + 1)
