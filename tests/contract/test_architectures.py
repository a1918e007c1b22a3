"""Models of other shapes, given by path: one setting, alike on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import services, two_sided
from harness.services import Service, Setup
from tests import tiny
from tests.contract.asking import Ask, ask_all, questions

TOKENS = 12


@pytest.fixture(scope="module", params=["llama", "opt"])
def device(
    request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A device with a random model of this shape, linked to a peer with the same."""
    folder = tmp_path_factory.mktemp(request.param)
    model = tiny.save(folder / "tiny", request.param)
    setup = Setup(folder, {"DRAGON_MODEL": str(model), "DRAGON_EXACT": "true"})
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        two_sided.upload_notes(running, questions()[:6])
        services.wait_joint(running)
        yield running


@pytest.mark.services
def test_both_sides_answer_with_a_model_of_another_shape(device: Service) -> None:
    """Tiny models have learnt nothing: what counts is that both write the same text, together."""
    plain = {str(token): -100 for token in range(5)}

    def replies(mode: str) -> list[tuple[str, list[list[int]]]]:
        asks = [
            Ask(q.text, mode, tokens=TOKENS, model="tiny", more=(("logit_bias", plain),))
            for q in questions()[:4]
        ]
        return [(reply.text, reply.participation) for reply in ask_all(device, asks)]

    found = replies("coupled")
    assert found == replies("tokenwise")
    assert all(text for text, _ in found)
    assert all(joint and joint[0][0] == 0 and joint[-1][1] > 0 for _, joint in found)
