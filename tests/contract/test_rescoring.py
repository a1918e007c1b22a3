"""Relevance re-scored on the running text, alike on both sides: the same text as tokenwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.network_emulator import Network
from harness.services import Setup
from tests.contract.asking import Ask, ask_all, questions
from tests.contract.conftest import Pair, noted, tied


@pytest.fixture(scope="module")
def rescoring(exact_services: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Exact services that re-score every third token, as the device says."""
    env = {"DRAGON_EXACT": "true", "DRAGON_RESCORE_EVERY": "3"}
    setup = Setup(tmp_path_factory.mktemp("rescoring"), env)
    with tied(setup, exact_services.peer) as running:
        yield noted(running)


@pytest.mark.services
def test_coupled_over_a_slow_link_equals_tokenwise(rescoring: Pair) -> None:
    def texts(mode: str, rtt_ms: int) -> list[tuple[str, list[list[int]]]]:
        rescoring.network.network = Network(rtt_ms / 1000)
        asks = [Ask(q.text, mode, seed=3, tokens=16) for q in questions()[:4]]
        replies = ask_all(rescoring.device, asks)
        assert all(reply.participation == [[0, reply.tokens]] for reply in replies)
        return [(reply.text, reply.participation) for reply in replies]

    assert texts("coupled", 200) == texts("tokenwise", 0)
