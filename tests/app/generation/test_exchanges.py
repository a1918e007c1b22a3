"""Which everyday exchanges a model is shown before it replies."""

from __future__ import annotations

import numpy as np
import pytest

from app.generation.exchanges import VECTORS, Exchanges, read
from tests.samples import embedder


@pytest.fixture(scope="module")
def exchanges() -> Exchanges:
    return Exchanges(embedder())


def test_the_vectors_are_those_of_the_messages() -> None:
    some = slice(0, None, 60)
    messages = [exchange.message for exchange in read()]
    vectors = np.load(VECTORS)
    assert len(vectors) == len(messages)
    np.testing.assert_allclose(vectors[some], embedder().embed(messages[some]), atol=2e-3)


def test_the_nearest_stands_last(exchanges: Exchanges) -> None:
    for exchange in [each for each in read() if each.kind != "task"][::150]:
        found = exchanges.nearest(exchange.message, 4)
        assert len(found) == 4
        assert found[-1].message.lower() == exchange.message.lower()


def test_a_task_has_no_examples(exchanges: Exchanges) -> None:
    assert not exchanges.nearest("translate 'good evening' to french", 4)


@pytest.mark.parametrize("message", ["perfect", "see you tomorrow", "what's the weather like"])
def test_english_is_not_answered_by_another_language(exchanges: Exchanges, message: str) -> None:
    assert {exchange.kind for exchange in exchanges.nearest(message, 4)}.isdisjoint(
        {"german", "spanish"}
    )


@pytest.mark.parametrize(("message", "kind"), [("vielen Dank", "german"), ("hola", "spanish")])
def test_another_language_is(exchanges: Exchanges, message: str, kind: str) -> None:
    assert exchanges.nearest(message, 1)[0].kind == kind
