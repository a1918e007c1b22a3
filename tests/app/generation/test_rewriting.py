"""A question is made to stand alone by the model, from what it may be told, or stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.generation import rewriting
from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest
from app.generation.rewriting import TOKENS, Rewriter, task
from dragon.errors import OverloadedError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from tests import tiny

SECRET = "heron-42-lantern"
HISTORY = (
    Message("user", "Who fixes the leaking tap?"),
    Message("assistant", f"Ms Okafor does. The code of her van is {SECRET}."),
)
QUESTION = Message("user", "And when?")
KNOWN = (HISTORY[0], Message("assistant", f"Ms Okafor does. {MARK}"), QUESTION)


@dataclass
class Model:
    """Writes a text, whatever it is asked, and keeps what it was asked."""

    text: str
    ends: bool = True
    refuses: bool = False
    asked: list[str] = field(default_factory=list)

    async def written(
        self, _: object, tokenizer: Tokenizer, asked: str, limit: int, row: Row | None = None
    ) -> AsyncIterator[int]:
        if self.refuses:
            raise OverloadedError("too many")
        self.asked.append(asked)
        ends = tokenizer.end_ids if self.ends else ()
        for token in [*tokenizer.encode(self.text), *ends][:limit]:
            yield token


def request_of(
    messages: Sequence[Message], known: Sequence[Message] | None = None
) -> GenerationRequest:
    return GenerationRequest(
        (5, 6),
        messages[-1].content,
        messages=tuple(messages),
        cloud_messages=tuple(messages if known is None else known),
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model("When will the tap be fixed?")
    monkeypatch.setattr(rewriting, "written", model.written)
    return model


@pytest.fixture
def own(tokenizer: Tokenizer) -> Rewriter:
    nothing: Any = None
    return Rewriter(nothing, tokenizer, taught=False)


async def test_the_models_question_is_searched_on_both_sides(own: Rewriter, model: Model) -> None:
    request = await own.alone(request_of([*HISTORY, QUESTION]))
    assert request.query == request.asked == "When will the tap be fixed?"
    assert SECRET in model.asked[0]
    assert (await own.alone_for_cloud(request)) == request
    assert len(model.asked) == 1


async def test_the_clouds_question_is_made_of_what_the_cloud_knows(
    own: Rewriter, model: Model
) -> None:
    request = await own.alone(request_of([*HISTORY, QUESTION], KNOWN))
    assert request.asked == "And when?", "a question made of private words would go up"
    model.text = "When does Ms Okafor come?"
    request = await own.alone_for_cloud(request)
    assert request.asked == "When does Ms Okafor come?"
    assert SECRET in model.asked[0]
    assert SECRET not in model.asked[1]
    assert "Ms Okafor does. ..." in model.asked[1]


@pytest.mark.parametrize(
    "failing",
    [Model(""), Model("\n\n"), Model("and so on " * TOKENS, ends=False), Model("", refuses=True)],
)
async def test_a_question_that_fails_stays_as_it_stands(
    own: Rewriter, failing: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "written", failing.written)
    asked = request_of([*HISTORY, QUESTION], KNOWN)
    assert await own.alone_for_cloud(await own.alone(asked)) == asked


async def test_only_the_first_line_is_taken(own: Rewriter, model: Model) -> None:
    model.text, model.ends = "\nWhen will the tap be fixed?\nThat is the question.", False
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
