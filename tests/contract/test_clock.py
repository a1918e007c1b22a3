"""The wall clock is set by years while an answer is written: nothing ends, nothing is lost.

Covers `harness.faults.clock`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.ledger.verify import verify
from app.storage import database
from harness import services
from harness.raw_link import tokenizer
from harness.services import Service, Setup
from tests.contract.asking import Ask, streamed, upload

pytestmark = pytest.mark.services
TOKENS = 40
YEARS = 10 * 365 * 24 * 3600


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clock") / "ahead"


@pytest.fixture(scope="module")
def device(
    clock: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Its clock and its peer's are the ones that are set."""
    setup = Setup(
        tmp_path_factory.mktemp("services"),
        {"DRAGON_EXACT": "true"},
        runner=("harness.faults.clock", str(clock)),
    )
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield running


@pytest.fixture
def text(device: Service, clock: Path) -> str:
    """What is written while the clock goes right."""
    clock.unlink(missing_ok=True)
    return write(device, clock, 0.0)[0]


def write(device: Service, clock: Path, ahead: float) -> tuple[str, dict[str, Any]]:
    """A text during which the clock is set, and what is said of how it was written."""
    endless = {str(token): -100 for token in tokenizer().end_ids}
    more = (("logit_bias", endless), ("dragon", {}))
    asked = Ask("The capital of Kenya is", seed=3, tokens=TOKENS, raw=True, more=more)
    return streamed(device, asked, lambda: clock.write_text(str(ahead)))


@pytest.mark.parametrize("ahead", [YEARS, -YEARS])
def test_an_answer_goes_on(device: Service, clock: Path, text: str, ahead: float) -> None:
    written, told = write(device, clock, ahead)
    assert written == text
    assert told["participation"] == [[0, TOKENS]]


def test_what_was_kept_before_is_there_after(device: Service, clock: Path) -> None:
    for number, ahead in enumerate((0, YEARS, -YEARS)):
        clock.write_text(str(ahead))
        upload(device, f"note-{number}.txt", f"The spare key of shed {number} hangs left.")
    listed = httpx.get(f"{device.url}/v1/files", headers=device.headers, timeout=60).json()["data"]
    assert len(listed) == 3
    kept = database.connect(database.database_url(device.log.parent / "device"))
    assert asyncio.run(verify(database.session_maker(kept))).answers >= 3
