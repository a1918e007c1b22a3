"""The slow, obvious answer: two decoders in one process, a token at a time, no session, no link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragon import aggregation, verification
from dragon.aggregation import Side
from dragon.decoder import Decoder, step
from dragon.model import LanguageModel
from dragon.protocol import Role, Work
from dragon.retrieval.relevance import relevance
from dragon.retrieval.rows import document_rows
from dragon.sampling import Mode, Sampling
from dragon.tokenizer import Message, Tokenizer
from dragon.verification import Drafted


@dataclass(frozen=True)
class Passage:
    """A document as a response names it: its text, and its cosine with the question."""

    text: str
    score: float

    @property
    def relevance(self) -> float:
        """The score in nats."""
        return relevance(self.score)

    @property
    def vector(self) -> None:
        """A response does not tell."""


def _algorithm_1(device: Side, cloud: Side, sampling: Sampling, position: int) -> int:
    own, other = (
        Drafted(verification.draft(role, side, sampling, position), side)
        for role, side in ((Role.DEVICE, device), (Role.CLOUD, cloud))
    )
    return verification.target(own, other, sampling, position)


def write(
    model: LanguageModel,
    tokenizer: Tokenizer,
    question: str,
    private: Sequence[Passage],
    public: Sequence[Passage],
    sampling: Sampling,
    tokens: int,
    mode: Mode = Mode.COUPLED,
) -> list[int]:
    """The tokens of a joint answer to one question, in `coupled` and its like or `speculative`."""
    take = _algorithm_1 if mode is Mode.SPECULATIVE else aggregation.target
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
        text.append(take(device, cloud, sampling, len(text)))
    for side in sides:
        side.release()
    return text
