"""Distributions as a model really makes them: both sides of joint answers, uncut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dragon.inference.backends.backend import Backend
from dragon.inference.choice import ModelChoice
from dragon.inference.decoder import Decoder, step
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.retrieval.prompt_rows import document_rows
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from harness.fixed_documents import Query
from harness.reference import Passage


@dataclass(frozen=True)
class Pair:
    """One position: p^s of each side in wire form and before the cut, float32 [V]."""

    device: Side
    cloud: Side
    full_device: torch.Tensor
    full_cloud: torch.Tensor


class _Keeping(Decoder):
    """A decoder that keeps the last distribution it has mixed."""

    full: torch.Tensor

    def mix(self, logits: torch.Tensor, position: int) -> Side:
        weights = self.weighting.at(position).rows.to(logits.dtype)[:, None]
        self.full = (weights * torch.softmax(logits, -1)).sum(0)
        return super().mix(logits, position)


def collect(queries: Sequence[Query], model_path: str | Path, tokens: int) -> list[Pair]:
    """The pairs of one answer per query, at temperature 1, of at most `tokens` tokens."""
    tokenizer, model = ModelChoice(model=str(model_path), threads=1).load()
    pairs: list[Pair] = []
    for seed, query in enumerate(queries):
        pairs += _answer(model, tokenizer, query, Sampling(seed=seed), tokens)
    return pairs


def _answer(
    model: Backend, tokenizer: Tokenizer, query: Query, sampling: Sampling, tokens: int
) -> list[Pair]:
    conversation = tokenizer.conversation([Message("user", query.text)])

    def opened(passages: Sequence[Passage]) -> _Keeping:
        rows, _ = document_rows(tokenizer, passages, model.context, raw=False, quotes=False)
        side = _Keeping(model, rows, conversation, limit=tokens)
        assert side.acquire()
        side.prefill()
        return side

    device, cloud = opened(query.device), opened(query.cloud)
    text: list[int] = []
    pairs = []
    while len(text) < tokens and not (text and text[-1] in tokenizer.end_ids):
        work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
        own, remote = (step(model, [side], [work])[0][0] for side in (device, cloud))
        pairs.append(Pair(own, remote, device.full, cloud.full))
        text.append(mixture.target(own, remote, sampling, len(text)))
    device.release()
    cloud.release()
    return pairs
