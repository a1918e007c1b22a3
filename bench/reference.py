"""The slow, obvious answer: two decoders in one process, a token at a time, no session, no link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragon import aggregation
from dragon.decoder import Decoder, step
from dragon.model import LanguageModel
from dragon.protocol import Work
from dragon.retrieval.relevance import relevance
from dragon.retrieval.rows import document_rows
from dragon.sampling import Sampling
from dragon.tokenizer import Message, Tokenizer


@dataclass(frozen=True)
class Passage:
    """A document as a response names it: its text, and its cosine with the question."""

    text: str
    score: float
    document: str = ""

    @property
    def relevance(self) -> float:
        """The score in nats."""
        return relevance(self.score)


def write(
    model: LanguageModel,
    tokenizer: Tokenizer,
    question: str,
    private: Sequence[Passage],
    public: Sequence[Passage],
    sampling: Sampling,
    tokens: int,
) -> list[int]:
    """The tokens of a joint answer to one question."""
    conversation = tokenizer.conversation([Message("user", question)])
    sides = []
    for passages in (private, public):
        rows, _ = document_rows(tokenizer, passages, model.context, raw=False)
        sides.append(Decoder(model, rows, conversation))
    for side in sides:
        side.acquire()
        side.prefill()
    text: list[int] = []
    while len(text) < tokens and not (text and text[-1] in tokenizer.end_ids):
        work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
        device, cloud = (step(model, [side], [work])[0][0] for side in sides)
        text.append(aggregation.target(device, cloud, sampling, len(text)))
    for side in sides:
        side.release()
    return text
