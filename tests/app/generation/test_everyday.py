"""Which messages need no document, and which exchanges a model is shown before it replies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.generation.events import GenerationRequest
from app.generation.everyday import VECTORS, Everyday, nearest, read
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.sampling.params import Sampling
from tests.samples import embedder


def test_the_vectors_are_those_of_the_messages() -> None:
    some = slice(0, None, 60)
    messages = [exchange.message for exchange in read()]
    vectors = np.load(VECTORS)
    assert len(vectors) == len(messages)
    np.testing.assert_allclose(vectors[some], embedder().embed(messages[some]), atol=2e-3)


def test_the_nearest_stands_last() -> None:
    for exchange in [each for each in read() if each.kind != "task"][::150]:
        found = nearest(embedder(), exchange.message, 4)
        assert len(found) == 4
        assert found[-1].message.lower() == exchange.message.lower()


def test_a_task_has_no_examples() -> None:
    assert not nearest(embedder(), "translate 'good evening' to french", 4)


@pytest.mark.parametrize("message", ["perfect", "see you tomorrow", "what's the weather like"])
def test_english_is_not_answered_by_another_language(message: str) -> None:
    assert {exchange.kind for exchange in nearest(embedder(), message, 4)}.isdisjoint(
        {"german", "spanish"}
    )


@pytest.mark.parametrize(("message", "kind"), [("vielen Dank", "german"), ("hola", "spanish")])
def test_another_language_is(message: str, kind: str) -> None:
    assert nearest(embedder(), message, 1)[0].kind == kind


class Judge:
    """Takes a question of two words for small talk."""

    def needless(self, message: str) -> float:
        return 9.0 if len(message.split()) == 2 else -9.0


@pytest.mark.parametrize(
    ("alone", "needless"), [("And silk?", True), ("Is silk warmer than wool?", False)]
)
async def test_what_looks_like_small_talk_may_stand_for_a_question(
    tokenizer: Tokenizer, alone: str, needless: bool
) -> None:
    nothing: Any = None
    small: Any = Judge()
    with ThreadPoolExecutor(1) as pool:
        engine: Any = SimpleNamespace(submit_urgent=pool.submit)
        everyday = Everyday(engine, tokenizer, nothing, small)
        chat = (Message("user", "How long is wool?"), Message("user", "And silk?"))
        request = GenerationRequest((20,), alone, Sampling(), messages=chat)
        assert await everyday.needless(request) is needless
