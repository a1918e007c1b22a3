"""What stands before the conversation in one row of a side, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from dragon.inference.grounding import Grounding
from dragon.inference.quotes import Quote


class Begins(StrEnum):
    """What a conversation's tokens go on from: that stands in the row, before or behind a document.

    Both sides make the same rows of it.
    """

    TURNS = "turns"  # turns alone: a document is a system message, or begins the first question
    SYSTEM = "system"  # the client's own instructions, which a document stands before
    TOOLS = "tools"  # tools, and no instructions
    BOTH = "both"
    ALL = "all"  # anything: the template has all of it in some other order


@dataclass(frozen=True)
class Row:
    """What stands before the conversation in one row, and how relevant it is, in nats.

    `document` is the id of the document it is from: its keys and values may be kept for as long as
    that document is. `kv` is given when another side with the same model has computed them; as
    `KV.pack` made it. `vector` float32 [dim] is its document's embedding, which re-scoring needs.
    `quotes` are all that may be written in it, `grounding` what its words have to stand in.
    """

    tokens: tuple[int, ...]
    relevance: float
    document: str = ""
    kv: bytes | None = None
    vector: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    quotes: tuple[Quote, ...] = ()
    grounding: Grounding | None = field(default=None, compare=False)


def room_for_document(context: int, conversation: int, answer: int) -> int:
    """Tokens a document may take: it leaves room for the answer, or for half of what is left."""
    left = context - conversation
    return left - min(answer, left // 2 + 1)
