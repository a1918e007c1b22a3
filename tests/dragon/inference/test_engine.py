"""The engine: real threads, a real small model, several generations at once.

Covers `dragon.inference.decoder`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
import torch

from dragon.errors import ContextLengthError, DragonError
from dragon.inference import scoring
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import BY_MODEL, Decoder, Decoding, step
from dragon.inference.engine import Engine, Outcome, StepResult
from dragon.inference.fairness import HOUSEHOLD, Household
from dragon.inference.grammar import Mask
from dragon.inference.rows import Row
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution, cut
from tests import tiny

WAIT_S = 60
ROWS = [Row((5, 6, 7, 8), 1.0), Row((9, 10), 0.0)]


OF_EVERY_ARCHITECTURE = pytest.mark.parametrize(
    "path", tiny.ARCHITECTURES, indirect=True, scope="module"
)


@pytest.fixture(scope="module")
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model; of one architecture for what is the engine's alone to decide."""
    architecture = getattr(request, "param", tiny.ARCHITECTURES[0])
    return tiny.save(tmp_path_factory.mktemp(architecture), architecture)


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    running = Engine(LanguageModel.load(path, tiny.VOCABULARY))
    yield running
    running.stop()


def opened(engine: Engine, rows: list[Row], conversation: list[int]) -> Decoder:
    decoder = engine.open(rows, conversation)
    decoder.prefilled.result(WAIT_S)
    return decoder


def queued(engine: Engine, decoder: Decoder, work: Work) -> Future[Outcome]:
    done: Future[Outcome] = Future()
    engine.run(decoder, work, done.set_result)
    return done


def run(engine: Engine, decoder: Decoder, work: Work) -> list[Side]:
    return scoring.run(engine, decoder, work).result(WAIT_S)


@contextmanager
def held(engine: Engine) -> Iterator[None]:
    """Nothing begins until all of this is queued."""
    gate = threading.Event()
    waiting = engine.submit_urgent(lambda: gate.wait(WAIT_S))
    yield
    gate.set()
    assert waiting.result(WAIT_S)


def alone(path: Path, rows: list[Row], conversation: list[int], text: list[int]) -> torch.Tensor:
    """The mixture after `text`, by whole forwards of every row and no cache."""
    model = LanguageModel.load(path, tiny.VOCABULARY)
    weights = torch.softmax(torch.tensor([row.relevance for row in rows]), 0)
    mixed = torch.zeros(tiny.VOCABULARY)
    for weight, row in zip(weights, rows, strict=True):
        tokens = torch.tensor([[*row.tokens, *conversation, *text]])
        mixed += weight * torch.softmax(model.forward([0], [0], tokens, 1)[0, -1], -1)
    return mixed


def assert_alike(one: WireDistribution, other: WireDistribution) -> None:
    """Equal but for rounding: a forward of another shape may move a weight by a step."""
    weights = dict(zip(one.ids.tolist(), one.weights.tolist(), strict=True))
    others = dict(zip(other.ids.tolist(), other.weights.tolist(), strict=True))
    for token in weights.keys() | others.keys():
        assert abs(weights.get(token, 0) - others.get(token, 0)) <= 2


@OF_EVERY_ARCHITECTURE
def test_a_side_is_the_weighted_mixture_of_its_rows(engine: Engine, path: Path) -> None:
    decoder = opened(engine, ROWS, [20, 21])
    (first,) = run(engine, decoder, Work(0, (), 1, 0))
    second, third = run(engine, decoder, Work(0, (30, 31), 2, 0))
    rolled_back = run(engine, decoder, Work(1, (32,), 1, 0))[0]
    for side, text in ((first, []), (second, [30]), (third, [30, 31]), (rolled_back, [30, 32])):
        assert_alike(side.wire, cut(alone(path, ROWS, [20, 21], text).numpy()).wire)
    expected_log_h = round(1024 * torch.logsumexp(torch.tensor([1.0, 0.0]), 0).item())
    assert first.log_h == expected_log_h


@OF_EVERY_ARCHITECTURE
def test_generations_in_one_batch_equal_each_alone(path: Path) -> None:
    model = LanguageModel.load(path, tiny.VOCABULARY)
    decoders = [
        Decoder(model, ROWS[:count], list(range(20, 20 + length)))
        for count, length in ((1, 3), (2, 9), (2, 1))
    ]
    for decoder in decoders:
        assert decoder.acquire()
        decoder.prefill()
    works = [Work(0, (40 + i,), 1, 0) for i in range(len(decoders))]
    together = step(model, decoders, works)
    for decoder, work, (side,) in zip(decoders, works, together, strict=True):
        ((single,),) = step(model, [decoder], [work])
        assert side.log_h == single.log_h
        assert_alike(side.wire, single.wire)


def test_an_answer_that_fails_takes_no_other_along(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one forward each makes what it can: it may be another person's."""
    broken, whole = opened(engine, ROWS, [20]), opened(engine, ROWS, [21])

    def fail(*_: object) -> None:
        raise IndexError("nothing is allowed")

    monkeypatch.setattr(broken, "sides", fail)
    with held(engine):
        outcomes = [queued(engine, each, Work(0, (30,), 1, 0)) for each in (broken, whole)]
    failed, written = (outcome.result(WAIT_S) for outcome in outcomes)
    assert isinstance(failed, DragonError)
    assert isinstance(written, StepResult)
    assert len(written.sides or []) == 1


@OF_EVERY_ARCHITECTURE
def test_several_outputs_equal_single_steps(engine: Engine) -> None:
    decoder = opened(engine, ROWS, [20])
    many = run(engine, decoder, Work(0, (30, 31, 32), 4, 0))
    assert len(many) == 4
    (again,) = run(engine, decoder, Work(0, (), 1, 0))
    assert again == many[0]


@OF_EVERY_ARCHITECTURE
def test_a_document_alone_or_cached_is_the_same_bit_for_bit(path: Path) -> None:
    model = LanguageModel.load(path, tiny.VOCABULARY)
    sides = []
    for companions in ([], [Row((1, 2, 3), -50.0)]):
        decoder = Decoder(model, [ROWS[0], *companions], [20])
        assert decoder.acquire()
        decoder.prefill()
        slot = decoder.slots[0]
        keys = [layer.keys[slot, : len(ROWS[0].tokens)].clone() for layer in model.cache.layers]
        sides.append(keys)
        decoder.release()
    for one, other in zip(*sides, strict=True):
        assert torch.equal(one, other)


def test_closing_frees_slots_and_abandons_the_step(engine: Engine) -> None:
    free = engine.free_slots
    decoder = opened(engine, ROWS, [20])
    assert engine.free_slots == free - len(ROWS)
    entered, leave = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        entered.set()
        leave.wait(WAIT_S)

    hook = engine.model.layers[0].register_forward_pre_hook(hold, prepend=True)
    engine.run(decoder, Work(0, (30,), 1, 0), lambda _: pytest.fail("nobody waits for this"))
    assert entered.wait(WAIT_S)
    engine.close(decoder)
    leave.set()
    hook.remove()
    tiny.freed(engine)
    assert engine.free_slots == free


@OF_EVERY_ARCHITECTURE
def test_a_stale_step_is_abandoned_between_layers(engine: Engine) -> None:
    decoder = opened(engine, ROWS, [20])
    reached: list[int] = []
    hooks = [
        layer.register_forward_pre_hook(lambda *_, i=i: reached.append(i))
        for i, layer in enumerate(engine.model.layers)
    ]
    done: Future[Outcome] = Future()
    entered, leave = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        entered.set()
        leave.wait(WAIT_S)

    hooks.append(engine.model.layers[1].register_forward_pre_hook(hold, prepend=True))
    request = engine.run(decoder, Work(0, (30,), 1, 0), done.set_result)
    assert entered.wait(WAIT_S)
    request.stale = True
    leave.set()
    assert done.result(WAIT_S) == StepResult(None, 0)
    assert reached == [0]
    for hook in hooks:
        hook.remove()
    (after,) = run(engine, decoder, Work(0, (31,), 1, 0))
    (fresh,) = run(engine, opened(engine, ROWS, [20]), Work(0, (31,), 1, 0))
    assert after == fresh


def test_openings_wait_for_slots(engine: Engine) -> None:
    decoders = []
    while engine.free_slots:
        decoders.append(opened(engine, ROWS[:1], [20]))
    given_up, waiting = (engine.open(ROWS[:1], [20]) for _ in range(2))
    run(engine, decoders[0], Work(0, (30,), 1, 0))
    assert not waiting.prefilled.done()
    engine.close(given_up)
    engine.close(decoders.pop())
    waiting.prefilled.result(WAIT_S)
    assert given_up.prefilled.cancelled()
    for decoder in [*decoders, waiting]:
        engine.close(decoder)
    tiny.freed(engine)
    assert engine.free_slots == engine.model.cache.slots


def test_jobs_return_results_and_errors(engine: Engine) -> None:
    assert engine.submit_urgent(lambda: 7).result(WAIT_S) == 7
    with pytest.raises(ZeroDivisionError):
        engine.submit_urgent(lambda: 1 // 0).result(WAIT_S)


def test_a_prompt_over_the_context_is_refused(engine: Engine) -> None:
    with pytest.raises(ContextLengthError, match="shorten"):
        engine.open(ROWS, list(range(tiny.CONTEXT)))
    with pytest.raises(ContextLengthError, match="empty"):
        engine.open([Row((), 0.0)], [])


def test_a_step_of_a_closed_decoder_does_not_harm_the_others(engine: Engine) -> None:
    one, other = opened(engine, ROWS, [20]), opened(engine, ROWS, [21])
    alone = run(engine, other, Work(0, (30,), 1, 0))
    with held(engine):
        closed, goes_on = (queued(engine, each, Work(0, (30,), 1, 0)) for each in (one, other))
        engine.close(one)
    again = goes_on.result(WAIT_S)
    assert isinstance(again, StepResult)
    assert again.sides == alone
    assert not closed.done()


@pytest.mark.parametrize("closing", [False, True])
def test_those_answered_together_are_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, closing: bool
) -> None:
    monkeypatch.setattr("dragon.inference.engine._PATIENCE", 1e9)
    one, other = opened(engine, ROWS, [20]), opened(engine, ROWS, [21])
    rows: list[int] = []
    forward = engine.model.forward

    def counting(slots: Sequence[int], *rest: Any, **named: Any) -> torch.Tensor:
        rows.append(len(slots))
        return forward(slots, *rest, **named)

    monkeypatch.setattr(engine.model, "forward", counting)
    with held(engine):
        outcomes = [queued(engine, each, Work(0, (30,), 1, 0)) for each in (one, other)]
    for outcome in outcomes:
        outcome.result(WAIT_S)
    waiting = queued(engine, one, Work(1, (32,), 1, 0))
    if closing:
        engine.close(other)
    else:
        run(engine, other, Work(1, (33,), 1, 0))
    waiting.result(WAIT_S)
    assert rows == ([4, 2] if closing else [4, 4])


def test_idle_jobs_wait_for_answers_but_not_for_ever(engine: Engine) -> None:
    order: list[str] = []
    with held(engine):
        jobs = [engine.submit_idle(lambda: order.append("idle")) for _ in range(3)]
        jobs.append(engine.submit_urgent(lambda: order.append("urgent")))
    for job in jobs:
        job.result(WAIT_S)
    assert order[0] == "urgent"
    decoder = opened(engine, ROWS, [20])
    first = engine.submit_idle(lambda: time.sleep(0.01))
    second = engine.submit_idle(time.perf_counter)
    first.result(WAIT_S)
    began = time.perf_counter()
    run(engine, decoder, Work(0, (30,), 1, 0))
    assert second.result(WAIT_S) - began > 0.01 * 20, "it waits while an answer is being written"
    third = engine.submit_idle(lambda: None)
    engine.close(decoder)
    third.result(WAIT_S)


def test_prefills_of_one_household_do_not_hold_up_anothers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many it has begun: every other piece is the other's."""
    monkeypatch.setattr("dragon.inference.engine.PIECE", 1)
    ended: list[str] = []

    def open_for(name: str) -> Decoder:
        HOUSEHOLD.set(Household(name))
        decoder = engine.open(ROWS, [20] * 20)
        decoder.prefilled.add_done_callback(lambda _: ended.append(name))
        return decoder

    with held(engine):
        decoders = [copy_context().run(open_for, name) for name in "aaab"]
    for decoder in decoders:
        decoder.prefilled.result(WAIT_S)
        engine.close(decoder)
    assert ended.index("b") <= 1


class AllowsAll(Mask):
    def __init__(self) -> None:
        pass

    def allowed(self, text: Sequence[int]) -> torch.Tensor:
        return torch.ones(tiny.VOCABULARY, dtype=torch.bool)


def test_whose_masks_are_computed_rests_while_others_write(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask takes everyone's time, and is of use to one answer."""
    monkeypatch.setattr("dragon.inference.engine._MASK_REST", 1_000_000)
    limited = Decoding(adjustment=Adjustment(Sampling(), (), (), AllowsAll()))
    ended: list[str] = []

    def open_for(name: str, decoding: Decoding) -> Decoder:
        HOUSEHOLD.set(Household(name))
        decoder = engine.open(ROWS, [20], decoding)
        decoder.prefilled.result(WAIT_S)
        return decoder

    masked = copy_context().run(open_for, "masked", limited)
    other = copy_context().run(open_for, "other", BY_MODEL)
    run(engine, masked, Work(0, (30,), 1, 0))
    over: Future[None] = Future()

    def step_of_other(at: int) -> None:
        def done(_: Outcome) -> None:
            ended.append("other")
            if at < 3:
                step_of_other(at + 1)

        engine.run(other, Work(at, (30,), 1, 0), done)

    def done(_: Outcome) -> None:
        ended.append("masked")
        over.set_result(None)

    with held(engine):
        engine.run(masked, Work(1, (31,), 1, 0), done)
        step_of_other(0)
    over.result(WAIT_S)  # nobody rests once no other waits
    assert ended == ["other"] * 4 + ["masked"]
