"""The slow, obvious reference: two decoders in one process, token by token, no session or link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import Backend
from dragon.inference.decoder import Decoder, Decoding, step
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.protocol.rules.speculative import algorithm1_draft, algorithm1_target
from dragon.retrieval.prompt_rows import document_rows
from dragon.retrieval.relevance import Hit, relevance
from dragon.sampling import mixture
from dragon.sampling.mixture import ETA_ONE, Side
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.role import Role


class Passage(Hit):
    """A document and how likely it answers, as in a response or a workload."""

    def __init__(self, text: str, score: float, document: str = "") -> None:
        super().__init__(0, document, "", text, score, relevance(score))


def algorithm_1(device: Side, cloud: Side, sampling: Sampling, position: int) -> int:
    """The target in `speculative`, from both sides' distributions alone."""
    own = algorithm1_draft(Role.DEVICE, device, sampling, position)
    other = algorithm1_draft(Role.CLOUD, cloud, sampling, position)
    return algorithm1_target((own, other), device, cloud, sampling, position)


@dataclass(frozen=True)
class _Writer:
    """One side: its rows in a decoder, and slow ways to query it."""

    model: Backend
    rows: Sequence[Row]
    conversation: Sequence[int]
    adjustment: Adjustment
    decoder: Decoder

    @classmethod
    def open(
        cls,
        model: Backend,
        rows: Sequence[Row],
        conversation: Sequence[int],
        sampling: Sampling,
        tokenizer: Tokenizer,
    ) -> _Writer:
        mask = tokenizer.mask(sampling.grammar) if sampling.grammar else None
        adjustment = Adjustment(sampling, conversation, tokenizer.end_ids, mask)
        decoder = Decoder(model, rows, conversation, Decoding(adjustment=adjustment))
        decoder.acquire()
        decoder.prefill()
        return cls(model, rows, conversation, adjustment, decoder)

    def after(self, text: Sequence[int]) -> Side:
        """The distribution after a text that was fed except for its last token."""
        work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
        return step(self.model, [self.decoder], [work])[0][0]

    def log_likelihood(self, text: Sequence[int]) -> torch.Tensor:
        """log P^s(text): every row run from the start, ignoring what its slot holds."""
        weights = torch.softmax(torch.tensor([r.relevance for r in self.rows]).double(), 0)
        products = []
        for row, weight in zip(self.rows, weights, strict=True):
            tokens = torch.tensor([[*row.tokens, *self.conversation, *text]])
            logits = self.model.forward(self.decoder.slots[:1], [0], tokens, len(text) + 1)[0, :-1]
            adjusted = [self.adjustment.of(each[None], text[:t]) for t, each in enumerate(logits)]
            chances = torch.log_softmax(torch.cat(adjusted).double(), -1)
            chosen = chances.gather(1, torch.tensor(text)[:, None])
            products.append(weight.log() + chosen.sum())
        return torch.logsumexp(torch.stack(products), 0)


def write(
    model: Backend,
    tokenizer: Tokenizer,
    question: str,
    private: Sequence[Passage],
    public: Sequence[Passage],
    sampling: Sampling,
    tokens: int,
    mode: Mode = Mode.COUPLED,
    *,
    raw: bool = False,
    participation: Sequence[Sequence[int]] | None = None,
) -> list[int]:
    """Return the tokens of an answer: `speculative`, `sequencewise`, `local`, or as in `coupled`.

    `raw`: continue a text instead. `participation`, if given, lists the half-open token ranges the
    cloud took part in; the rest is the device's.
    """
    conversation = (
        tokenizer.encode(question) if raw else tokenizer.conversation([Message("user", question)])
    )
    device, cloud = (
        _Writer.open(
            model,
            document_rows(tokenizer, found, model.context, raw=raw, quotes=model.quotes)[0],
            conversation,
            sampling,
            tokenizer,
        )
        for found in (private, public)
    )

    def whole(token_after: Callable[[list[int]], int]) -> list[int]:
        text: list[int] = []
        while len(text) < tokens and not (text and text[-1] in tokenizer.end_ids):
            text.append(token_after(text))
        return text

    def alone(side: _Writer, text: list[int]) -> int:
        return mixture.draft(side.after(text), sampling, len(text))

    def log_likelihood(text: list[int]) -> float:
        eta = mixture.device_weight(
            device.decoder.weighting.first.log_h, cloud.decoder.weighting.first.log_h
        )
        shares = torch.tensor([eta, ETA_ONE - eta]).double() / ETA_ONE
        sides = torch.stack([side.log_likelihood(text) for side in (device, cloud)])
        return float(torch.logsumexp(shares.log() + sides, 0))

    if mode is Mode.SEQUENCEWISE:
        candidates = [whole(partial(alone, side)) for side in (device, cloud)]
        text = max(candidates, key=log_likelihood)  # ties to the device's
    elif mode is Mode.LOCAL:
        text = whole(partial(alone, device))
    else:
        take = algorithm_1 if mode is Mode.SPECULATIVE else mixture.target

        def next_token(text: list[int]) -> int:
            own, other = device.after(text), cloud.after(text)
            if participation is not None and not any(a <= len(text) < b for a, b in participation):
                return mixture.draft(own, sampling, len(text))
            return take(own, other, sampling, len(text))

        text = whole(next_token)
    for side in (device, cloud):
        side.decoder.release()
    return text
