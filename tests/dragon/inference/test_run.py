"""A run on a real engine: what it produces in order and how it ends, and two of them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import torch

from dragon.errors import DragonError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import BY_MODEL, Decoder
from dragon.inference.engine import Engine
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.rows import Row
from dragon.inference.run import Run, written
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.state import Settled
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.role import Role
from harness.models import SMALL_MODEL
from tests import tiny

TOKENS = 6
LONG = 12


class Recorded(Run[str | SessionMessage | list[int]]):
    """Puts out everything that happens to it, and ends with its text."""

    _ended = False

    def __init__(self, engine: Engine, role: Role, *, joint: bool) -> None:
        pace = Pace(LinkMeter(), DecodeDelay())
        start = Start(Mode.COUPLED, Sampling(seed=5), Limits(frozenset(), TOKENS), catch_up=True)
        super().__init__(session_of(start, role, pace, joint=joint), engine, pace)

    def start(self, relevance: float = 0.0) -> None:
        self.open([Row((7, 8), relevance)], (20, 21, 22), BY_MODEL)

    def _begin(self, decoder: Decoder) -> None:
        self._items.put_nowait("begun")

    def _send(self, message: SessionMessage) -> None:
        self._items.put_nowait(message)

    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        self._items.put_nowait(tokens)

    def advance(self) -> None:
        super().advance()
        # Only now: the other side may need a draft that was sent with the last token.
        if self.session.finished and not self._ended:
            self._ended = True
            self._items.put_nowait(None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("model"))


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[Engine]:
    engine = Engine(LanguageModel.load(path, tiny.VOCABULARY))
    yield engine
    await asyncio.to_thread(engine.stop)


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("no memory")


async def freed(engine: Engine, slots: int) -> None:
    await asyncio.to_thread(tiny.freed, engine)
    assert engine.free_slots == slots


async def test_a_run_alone_begins_commits_and_ends(engine: Engine) -> None:
    slots = engine.free_slots
    run = Recorded(engine, Role.DEVICE, joint=False)
    run.start()
    first, *rest = [item async for item in run]
    assert first == "begun"
    assert [token for item in rest if isinstance(item, list) for token in item] == (
        run.session.committed
    )
    assert len(run.session.committed) == TOKENS
    run.close()
    run.close()
    await freed(engine, slots)


async def test_two_runs_that_exchange_their_messages_commit_the_same_text(engine: Engine) -> None:
    device = Recorded(engine, Role.DEVICE, joint=True)
    cloud = Recorded(engine, Role.CLOUD, joint=True)
    device.start(1.0)
    cloud.start(0.5)

    async def carry(origin: Recorded, other: Recorded) -> None:
        async for item in origin:
            if not isinstance(item, str | list):
                other.receive(item)

    await asyncio.gather(carry(device, cloud), carry(cloud, device))
    assert device.session.committed == cloud.session.committed
    assert device.session.intervals() == ((0, TOKENS),)
    device.close()
    cloud.close()


async def test_a_fault_of_the_model_ends_the_iterator_and_frees_the_slots(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = engine.free_slots
    run = Recorded(engine, Role.DEVICE, joint=False)
    run.start()
    assert await anext(run) == "begun"
    monkeypatch.setattr(engine.model, "forward", fail)
    with pytest.raises(DragonError, match="no memory"):
        [item async for item in run]
    await freed(engine, slots)


async def test_a_prefill_that_fails_raises(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.model, "forward", fail)
    run = Recorded(engine, Role.DEVICE, joint=False)
    run.start()
    with pytest.raises(DragonError, match="no memory"):
        await anext(run)


async def test_a_fault_of_its_session_ends_this_run_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = (Recorded(engine, Role.DEVICE, joint=False) for _ in range(2))
    monkeypatch.setattr(run.session, "complete", fail)
    run.start()
    other.start()
    with pytest.raises(DragonError, match="the answer failed: no memory"):
        [item async for item in run]
    _, *rest = [item async for item in other]
    assert rest
    other.close()


async def test_a_closed_run_produces_nothing_more(engine: Engine) -> None:
    slots = engine.free_slots
    run = Recorded(engine, Role.DEVICE, joint=False)
    run.start()
    run.close()
    await freed(engine, slots)
    await asyncio.sleep(0)
    assert run._items.empty()


def reference(model: LanguageModel, tokenizer: Tokenizer, asked: str) -> list[int]:
    """What is written alone, by running the whole text again for every token."""
    prompt = [*tokenizer.bare_row(), *tokenizer.conversation([Message("user", asked)])]
    tokens: list[int] = []
    (slot,) = model.cache.acquire(1) or []
    while len(tokens) < LONG:
        logits = model.forward([slot], [0], torch.tensor([[*prompt, *tokens]]), 1)
        tokens.append(int(logits[0, -1].argmax()))
    model.cache.release([slot])
    return tokens


async def test_it_writes_what_is_likeliest_and_frees_the_engine(engine: Engine) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    expected = reference(engine.model, tokenizer, "What is a lighthouse for?")
    free = engine.free_slots
    writing = written(engine, tokenizer, "What is a lighthouse for?", LONG)
    async with aclosing(writing):
        assert [await anext(writing) for _ in range(LONG // 2)] == expected[: LONG // 2]
    await freed(engine, free)
    again = written(engine, tokenizer, "What is a lighthouse for?", LONG)
    assert [token async for token in again] == expected
