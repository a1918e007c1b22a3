"""What a model writes by itself: token by token what a plain forward finds likeliest."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine
from dragon.inference.run import written
from dragon.inference.tokenizer import Message, Tokenizer
from harness.models import SMALL_MODEL
from tests import tiny

LIMIT = 12


def reference(model: LanguageModel, tokenizer: Tokenizer, asked: str) -> list[int]:
    """The same by running the whole text again for every token."""
    prompt = [*tokenizer.bare_row(), *tokenizer.conversation([Message("user", asked)])]
    tokens: list[int] = []
    (slot,) = model.cache.acquire(1) or []
    while len(tokens) < LIMIT:
        logits = model.forward([slot], [0], torch.tensor([[*prompt, *tokens]]), 1)
        tokens.append(int(logits[0, -1].argmax()))
    model.cache.release([slot])
    return tokens


async def test_it_writes_what_is_likeliest_and_frees_the_engine(
    tmp_path: Path,
) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    model = LanguageModel.load(tiny.save(tmp_path), tiny.VOCABULARY)
    expected = reference(model, tokenizer, "What is a lighthouse for?")
    engine = Engine(model)
    try:
        free = engine.free_slots
        writing = written(engine, tokenizer, "What is a lighthouse for?", LIMIT)
        async with aclosing(writing):
            assert [await anext(writing) for _ in range(LIMIT // 2)] == expected[: LIMIT // 2]
        for _ in range(2):  # the turn under way, and the one that frees
            await asyncio.wrap_future(engine.submit_urgent(lambda: None))
        assert engine.free_slots == free
        again = written(engine, tokenizer, "What is a lighthouse for?", LIMIT)
        assert [token async for token in again] == expected
    finally:
        await asyncio.to_thread(engine.stop)
