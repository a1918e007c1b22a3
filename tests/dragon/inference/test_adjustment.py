"""Logit bias and penalties: as OpenAI defines them, of the text so far, drafts included."""

from __future__ import annotations

from collections import Counter

import torch

from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, Decoding, step
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.messages import Work
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from harness.models import SMALL_MODEL
from tests import tiny

ROWS = [Row((5, 6, 7, 8), 1.0), Row((9, 10), 0.0)]
CONVERSATION = [20, 21]
SAMPLING = Sampling(
    logit_bias=((30, 2.5), (31, -100.0), (40, 5.0)),
    presence_penalty=0.5,
    frequency_penalty=1.5,
    repetition_penalty=1.3,
    min_tokens=3,
)
ENDS = frozenset({33, 35})


def slowly(model: LanguageModel, sampling: Sampling, text: list[int]) -> Side:
    """The side after `text`: whole forwards, no cache, and the formula token by token."""
    (slot,) = model.cache.acquire(1) or []
    mixed = torch.zeros(tiny.VOCABULARY)
    weights = torch.softmax(torch.tensor([row.relevance for row in ROWS]), 0)
    for row, weight in zip(ROWS, weights, strict=True):
        tokens = torch.tensor([[*row.tokens, *CONVERSATION, *text]])
        logits = model.forward([slot], [0], tokens, 1)[0, -1].clone()
        for token in {*CONVERSATION, *text}:  # passages do not count
            logits[token] *= 1 / 1.3 if logits[token] > 0 else 1.3
        for token, bias in sampling.logit_bias:
            logits[token] += bias
        for token, count in Counter(text).items():
            logits[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
        if len(text) < sampling.min_tokens:
            logits[sorted(ENDS)] = -torch.inf
        mixed += weight * torch.softmax(logits, -1)
    model.cache.release([slot])
    return Side(cut(mixed.numpy()).wire, 0)


def test_steps_rollbacks_and_catch_up_equal_the_formula(model: LanguageModel) -> None:
    decoding = Decoding(adjustment=Adjustment(SAMPLING, CONVERSATION, ENDS))
    decoder = Decoder(model, ROWS, CONVERSATION, decoding)
    assert decoder.acquire()
    decoder.prefill()
    text: list[int] = []
    works = [
        Work(0, (), 1, 0),
        Work(0, (40,), 1, 0),
        Work(1, (40, 41, 40), 3, 0),  # drafts of the other side in one forward
        Work(2, (42,), 1, 0),  # the last of them were rejected
        Work(0, (50, 50, 51), 4, 0),
    ]
    for work in works:
        text[work.keep :] = work.tokens
        ((*sides,),) = step(model, [decoder], [work])
        assert len(sides) == work.outputs
        for back, side in enumerate(reversed(sides)):
            expected = slowly(model, SAMPLING, text[: len(text) - back])
            assert mixture.total_variation(side, expected) < 1e-3
            assert 31 not in side.wire.ids
            may_end = len(text) - back >= SAMPLING.min_tokens
            assert may_end or ENDS.isdisjoint(side.wire.ids.tolist())
    decoder.release()


def test_a_request_without_any_changes_nothing() -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    assert Adjustment.asked(Sampling(top_k=3, min_p=0.1), CONVERSATION, tokenizer) is None
    for sampling in (
        Sampling(logit_bias=((1, 1.0),)),
        Sampling(presence_penalty=0.1),
        Sampling(frequency_penalty=-0.1),
        Sampling(repetition_penalty=1.1),
        Sampling(min_tokens=1),
    ):
        assert Adjustment.asked(sampling, CONVERSATION, tokenizer) is not None
