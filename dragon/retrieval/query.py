"""What a message asks for: all of it, and each of the questions it joins.

"What is the capital of Kenya, and what is my locker's code?" is two. A passage that answers one of
them does not answer the whole, and would be judged so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dragon.retrieval.courtesy import plain
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import content_words

_BEFORE = r"(?:(?:after|at|by|for|from|in|into|of|on|since|to|with)\s+)?"
_ASKS = (
    r"(?:are|can|could|did|do|does|has|have|how|is|tell|was|were|what|when|where|which|who|whom"
    r"|whose|why|will)"
)
_JOINT = re.compile(
    rf"\?\s+|(?:[.!;]|,?\s+(?:and|or|but)(?:\s+also)?)\s+(?={_BEFORE}{_ASKS}\b)", re.IGNORECASE
)
_MOST = 3

RULES = (_JOINT.pattern, _MOST)
"""What `questions_of` goes by."""


@dataclass(frozen=True)
class Query:
    """A message without the words that people put around it, and then the questions it joins, if
    they are several; `vectors` float32 [len(questions), dim] are their embeddings.
    """

    questions: tuple[str, ...]
    vectors: Vectors

    @classmethod
    def of(cls, message: str, embedder: TextEmbedder) -> Query:
        """What a message asks for."""
        questions = questions_of(message)
        return cls(questions, embedder.embed(questions))

    @property
    def text(self) -> str:
        """All of it."""
        return self.questions[0]

    @property
    def vector(self) -> Vectors:
        """The embedding of all of it, float32 [dim]."""
        first: Vectors = self.vectors[0]
        return first


def questions_of(message: str) -> tuple[str, ...]:
    """All that a message asks for, and behind it up to three questions where it joins several.

    What has no word that tells passages apart is no question.
    """
    whole = plain(message)
    joined = [plain(part) for part in _JOINT.split(whole) if content_words(plain(part))]
    return (whole, *joined[:_MOST]) if len(joined) > 1 else (whole,)
