"""What experiments change about a service: its speed, its documents, its ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from fastapi import FastAPI

from app.generation.events import GenerationRequest
from app.generation.plan import opening
from app.main import create_app
from app.settings import Settings
from dragon.errors import PreemptedError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.relevance import relevance
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL
from harness.reference import Passage
from harness.serve import FixedSearcher, adapt_device, never_end, parser, started
from harness.services import Floor, Setup
from harness.throttle import LAYERS, slow_down


@pytest.fixture
def model() -> LanguageModel:
    return LanguageModel.load(SMALL_MODEL, Tokenizer.load(SMALL_MODEL).vocab_size)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_step_waits_for_its_floor_bit_by_bit_and_a_prefill_does_not(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("harness.throttle.time", clock)
    slow_down(model, 560.0)
    model.forward([0], [0], torch.ones(1, 100, dtype=torch.int64), 1)
    assert clock.slept == []
    model.forward([0], [100], torch.ones(1, 1, dtype=torch.int64), 1)
    assert clock.now == pytest.approx(0.560)
    assert max(clock.slept) == pytest.approx(0.560 / LAYERS)


def test_a_slow_step_is_given_up_as_soon_as_it_is_not_wanted(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("harness.throttle.time", clock)
    slow_down(model, 560.0)
    token = torch.ones(1, 1, dtype=torch.int64)
    with pytest.raises(PreemptedError):
        model.forward([0], [0], token, 1, cancelled=lambda: clock.now > 0.1)
    assert clock.now < 0.1 + 2 * 0.560 / LAYERS


def test_end_tokens_get_no_probability(model: LanguageModel) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    never_end(model, tokenizer)
    logits = model.forward([0], [0], torch.ones(1, 4, dtype=torch.int64), 1)[0, -1]
    ends = sorted(tokenizer.end_ids)
    assert torch.softmax(logits, -1)[ends].sum() == 0
    assert torch.isfinite(logits).sum() == tokenizer.vocab_size - len(ends)


async def test_documents_are_those_of_the_query() -> None:
    searcher = FixedSearcher({"q": [Passage("one", 0.75), Passage("two", 0.5)]})
    (hit,) = await searcher.search("q", 1)
    assert (hit.text, hit.score, hit.relevance) == ("one", 0.75, relevance(0.75))
    with pytest.raises(KeyError):
        await searcher.search("another", 1)


async def test_an_app_is_changed_once_its_parts_are_built() -> None:
    order: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        order.append("built")
        yield
        order.append("closed")

    app = started(FastAPI(lifespan=lifespan), lambda: order.append("changed"))
    async with app.router.lifespan_context(app):
        order.append("runs")
    assert order == ["built", "changed", "runs", "closed"]


def test_a_usual_service_is_started_by_the_usual_program(tmp_path: Path) -> None:
    assert Setup(tmp_path).program("peer", Floor()) == ("cli", ["peer"])
    slow = Setup(tmp_path, endless=True).program("peer", Floor(5))
    assert slow == ("harness.serve", ["peer", "--floor-ms", "5", "--endless"])


async def test_a_device_aggregates_as_its_options_say(tmp_path: Path) -> None:
    app = create_app(
        Settings(_env_file=None, data_dir=tmp_path, api_key="key", model=str(SMALL_MODEL))
    )
    options = parser().parse_args(["device", "--schedule", "paper", "--no-catch-up"])
    running = started(app, lambda: adapt_device(app, options))
    async with running.router.lifespan_context(running):
        service = app.state.dragon.generation
        request = GenerationRequest((1,), "q", Sampling())
        sent = opening(request, service._plan(request), (), 0, joint=True)
    assert (sent.schedule, sent.catch_up) == (Schedule.PAPER, False)
