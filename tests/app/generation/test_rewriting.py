"""A question is made to stand alone by the model, from what it may be told, or stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest
from app.generation.rewriting import TOKENS, Rewriter, task
from dragon.errors import OverloadedError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine, Outcome, StepResult
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from tests import tiny

SECRET = "heron-42-lantern"
HISTORY = (
    Message("user", "Who fixes the leaking tap?"),
    Message("assistant", f"Ms Okafor does. The code of her van is {SECRET}."),
)
QUESTION = Message("user", "And when?")
KNOWN = (HISTORY[0], Message("assistant", f"Ms Okafor does. {MARK}"), QUESTION)


@dataclass
class Decoding:
    """A decoder that is ready at once."""

    prefilled: Future[None] = field(default_factory=Future)
    horizon: int = 1000

    def __post_init__(self) -> None:
        self.prefilled.set_result(None)


@dataclass
class Scripted:
    """An engine whose model writes a text, whatever it is asked; it keeps what it was asked."""

    tokenizer: Tokenizer
    text: str
    ends: bool = True
    refuses: Exception | None = None
    asked: list[str] = field(default_factory=list)
    open_: int = 0

    def open(self, rows: Sequence[Row], conversation: Sequence[int], *, limit: int) -> Decoding:
        assert limit == TOKENS, "it takes room for no more"
        if self.refuses is not None:
            raise self.refuses
        tokens = [token for row in rows for token in row.tokens]
        self.asked.append(self.tokenizer.decode([*tokens, *conversation]))
        self.open_ += 1
        return Decoding()

    def run(self, _: Decoding, work: Work, done: Callable[[Outcome], None]) -> None:
        (end,) = self.tokenizer.end_ids
        script = [*self.tokenizer.encode(self.text), *[end] * self.ends]
        at = work.keep + len(work.tokens)
        chances = np.zeros(self.tokenizer.vocab_size, dtype=np.float32)
        chances[script[min(at, len(script) - 1)]] = 1.0
        done(StepResult([Side(cut(chances).wire, 0)], 0))

    def close(self, _: Decoding) -> None:
        self.open_ -= 1


def request_of(
    messages: Sequence[Message], known: Sequence[Message] | None = None
) -> GenerationRequest:
    return GenerationRequest(
        (5, 6),
        messages[-1].content,
        Sampling(),
        messages=tuple(messages),
        cloud_messages=tuple(messages if known is None else known),
    )


def rewriter(tokenizer: Tokenizer, text: str, **more: Any) -> tuple[Rewriter, Scripted]:
    engine = Scripted(tokenizer, text, **more)
    return Rewriter(engine, tokenizer, taught=False), engine  # type: ignore[arg-type]


async def test_the_models_question_is_searched_on_both_sides(tokenizer: Tokenizer) -> None:
    own, engine = rewriter(tokenizer, "When will the tap be fixed?")
    request = await own.alone(request_of([*HISTORY, QUESTION]))
    assert request.query == request.asked == "When will the tap be fixed?"
    assert SECRET in engine.asked[0]
    assert (await own.alone_for_cloud(request)) == request
    assert (len(engine.asked), engine.open_) == (1, 0)


async def test_the_clouds_question_is_made_of_what_the_cloud_knows(tokenizer: Tokenizer) -> None:
    own, engine = rewriter(tokenizer, "When will the tap be fixed?")
    request = await own.alone(request_of([*HISTORY, QUESTION], KNOWN))
    assert request.asked == "And when?", "a question made of private words would go up"
    engine.text = "When does Ms Okafor come?"
    request = await own.alone_for_cloud(request)
    assert request.asked == "When does Ms Okafor come?"
    assert SECRET in engine.asked[0]
    assert SECRET not in engine.asked[1]
    assert "Ms Okafor does. ..." in engine.asked[1]
    assert engine.open_ == 0


@pytest.mark.parametrize(
    ("text", "ends"), [("", True), ("\n\n", True), ("and so on " * TOKENS, False)]
)
async def test_a_question_that_fails_stays_as_it_stands(
    tokenizer: Tokenizer, text: str, *, ends: bool
) -> None:
    own, engine = rewriter(tokenizer, text, ends=ends)
    asked = request_of([*HISTORY, QUESTION], KNOWN)
    assert await own.alone_for_cloud(await own.alone(asked)) == asked
    assert engine.open_ == 0


async def test_so_it_does_where_the_model_has_no_room(tokenizer: Tokenizer) -> None:
    own, _ = rewriter(tokenizer, "When?", refuses=OverloadedError("too many"))
    asked = request_of([*HISTORY, QUESTION])
    assert await own.alone(asked) == asked


async def test_only_the_first_line_is_taken(tokenizer: Tokenizer) -> None:
    own, _ = rewriter(tokenizer, "\nWhen will the tap be fixed?\nThat is the question.", ends=False)
    request = await own.alone(request_of([*HISTORY, QUESTION]))
    assert request.query == "When will the tap be fixed?"


def test_there_is_no_task_without_a_history_or_a_question() -> None:
    assert not task([QUESTION], taught=False)
    assert not task([Message("system", "Be brief."), QUESTION], taught=False)
    assert not task([Message("user", MARK), Message("assistant", MARK), QUESTION], taught=False)
    assert not task([*HISTORY, Message("user", "Thanks!")], taught=False)
    assert not task([], taught=False)
    told = task([Message("system", "Be brief."), *HISTORY, QUESTION], taught=False)
    assert told.startswith("User: Who fixes the leaking tap?\nAssistant: Ms Okafor does.")
    assert "\nUser: And when?\n" in told
    assert "brief" not in told


def test_a_long_conversation_is_told_from_its_end() -> None:
    turns = [Message("user" if n % 2 == 0 else "assistant", f"turn {n}") for n in range(99)]
    told = task([*turns[:-1], Message("user", "So what? " * 1000)], taught=False)
    assert "turn 97" in told
    assert "turn 92" not in told
    assert len(told) < 1500


async def test_one_that_is_given_up_frees_the_engine(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = LanguageModel.load(tiny.save(tmp_path), tiny.VOCABULARY)
    engine = Engine(model)
    try:
        free = engine.free_slots
        own = Rewriter(engine, tokenizer, taught=False)
        asked = request_of([*HISTORY, QUESTION])
        writing = asyncio.ensure_future(own.alone(asked))
        while engine.free_slots == free:
            assert not writing.done()
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await asyncio.to_thread(tiny.freed, engine)
        assert engine.free_slots == free
    finally:
        await asyncio.to_thread(engine.stop)
