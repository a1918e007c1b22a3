"""Scoring with a device's engine alone: the same as whole forwards, for every architecture.

Covers `dragon.inference.scoring` and `app.generation.plan`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from app.generation.events import Details, GenerationRequest
from app.generation.plan import Plan, Retrieved
from app.generation.scoring import Scorer
from dragon.errors import FrameError
from dragon.inference import scoring
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.scoring import CloudScore
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.protocol.messages import Work
from dragon.sampling.mixture import LOG_H_LIMIT
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL
from tests import tiny

TEXT = tuple(range(100, 340))


@pytest.fixture(params=["embedded", *tiny.ARCHITECTURES])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return SMALL_MODEL if request.param == "embedded" else tiny.save(tmp_path, request.param)


def asked(text: tuple[int, ...], **more: object) -> control.ScoreText:
    conversation, rest = text[:1], text[1:]
    return control.ScoreText(
        conversation=conversation, text=rest, raw=True, query="", top_k=0,
        prompt=len(text), max_tokens=0, **more,
    )  # fmt: skip


async def test_scores_without_documents_are_those_of_transformers(
    path: Path, tokenizer: Tokenizer
) -> None:
    engine = Engine(LanguageModel.load(path, tiny.VOCABULARY))
    free = engine.free_slots
    scorer = Scorer(engine, tokenizer, None, 4)
    found = await scorer.score("answer", asked(TEXT), [Row((), 0.0)], None)
    network = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = network(torch.tensor([TEXT])).logits[0, :-1, : tiny.VOCABULARY]
    expected = torch.log_softmax(logits, -1)
    own = [each.estimated.logprob for each in found.tokens]
    chosen = expected.gather(1, torch.tensor(TEXT[1:])[:, None])[:, 0]
    assert own == pytest.approx(chosen.tolist(), abs=1e-4)
    best = torch.topk(expected, 4).values
    for each, values in zip(found.tokens, best, strict=True):
        assert [value for _, value in each.estimated.top] == pytest.approx(
            values.tolist(), abs=1e-4
        )
        assert (each.tv, each.estimated.cloud, each.cloud) == (None, 0.0, ())
    await asyncio.to_thread(tiny.freed, engine)
    assert engine.free_slots == free
    await asyncio.to_thread(engine.stop)


async def test_a_prompt_of_one_token_is_told_but_not_scored(tokenizer: Tokenizer) -> None:
    engine = Engine(LanguageModel.load(SMALL_MODEL, tiny.VOCABULARY))
    request = GenerationRequest((20,), "x", Sampling(), 0, raw=True, details=Details(2, True))
    plan = Plan(0, None, catch_up=False, rescore_every=0, slope=0)
    scorer = Scorer(engine, tokenizer, None, 2)
    sources, told = await scorer.prompt(request, plan, Retrieved([Row((), 0.0)], []))
    (detail,) = told.details
    assert (sources.sources, detail.logprob, detail.top) == ((), None, ())
    await asyncio.to_thread(engine.stop)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 8])
def test_works_have_a_distribution_for_each_token(length: int, size: int) -> None:
    text = tuple(range(50, 50 + length))
    fed: list[int] = []
    outputs = 0
    for work in scoring.works(text, size):
        assert isinstance(work, Work)
        assert work.keep == len(fed)
        assert len(work.tokens) <= size
        fed += work.tokens
        outputs += work.outputs
    assert tuple(fed) == text[:-1]
    assert outputs == length


def test_what_the_cloud_says_is_checked() -> None:
    score = CloudScore(1024, (0.25, 0.75), torch.log_softmax(torch.randn(50), -1))
    data = score.pack()
    assert len(data) == CloudScore.size(2, 50)
    back = CloudScore.unpack(data, 2)
    assert (back.log_h, back.shares) == (score.log_h, score.shares)
    assert torch.equal(back.logprobs, score.logprobs)
    bad = [
        dataclasses.replace(score, logprobs=score.logprobs + 100),
        dataclasses.replace(score, logprobs=score.logprobs * float("nan")),
        dataclasses.replace(score, shares=(1.5, 0.0)),
        dataclasses.replace(score, log_h=LOG_H_LIMIT + 1),
    ]
    for wrong in bad:
        with pytest.raises(FrameError):
            CloudScore.unpack(wrong.pack(), 2)
