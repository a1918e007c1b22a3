"""Texts to continue, weighed with the number that the device was calibrated to, on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragon.inference.profile import Calibration, DecodeFit, Gain, Profile
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256
from harness.models import SMALL_MODEL
from harness.network_emulator import Network
from harness.services import Setup
from tests.contract.asking import Ask, Reply, ask_all, questions
from tests.contract.conftest import Pair, pair

SLOPE = 24.0


@pytest.fixture(scope="module")
def calibrated(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Exact services with a model that writes; the device alone knows its slope."""
    env = {"DRAGON_EXACT": "true", "DRAGON_ANSWERS": "words"}
    setup = Setup(tmp_path_factory.mktemp("continuing"), env)
    gain = Gain(nats=0.01, stderr=0.001)
    made = Calibration(
        slope=SLOPE, embedder=PACKAGED_WEIGHTS_SHA256, windows=8, tokens=99,
        over_uniform=gain, over_default=gain,
    )  # fmt: skip
    fit = DecodeFit.of([10, 20], [0.01, 0.02])
    (setup.data / "device").mkdir()
    Profile(model=SMALL_MODEL.name, rows=2, decode=fit, calibration=made).write(
        setup.data / "device"
    )
    yield from pair(setup, corpus)


def asked(services: Pair, mode: str, rtt_ms: int) -> list[Reply]:
    services.network.network = Network(rtt_ms / 1000)
    more = (("dragon", {"aggregation": mode, "cloud": "always"}),)
    asks = [Ask(q.text, mode, seed=3, tokens=16, raw=True, more=more) for q in questions()[:4]]
    return ask_all(services.device, asks)


@pytest.mark.services
def test_every_mode_writes_the_same_text(calibrated: Pair) -> None:
    expected = asked(calibrated, "tokenwise", 0)
    assert {s["side"] for reply in expected for s in reply.sources} == {"private", "public"}
    for side in ("private", "public"):  # with a slope of 0 they would be alike
        for reply in expected:
            weights = [source["weight"] for source in reply.sources if source["side"] == side]
            assert len(set(weights)) == len(weights), side
    for mode, rtt_ms in (("coupled", 200), ("oneway", 0)):
        replies = asked(calibrated, mode, rtt_ms)
        assert [reply.text for reply in replies] == [reply.text for reply in expected]
        assert all(reply.participation == [[0, reply.tokens]] for reply in replies)
