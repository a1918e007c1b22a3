"""A peer that puts its own words anywhere into answers leads nothing out of a chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.steering import attack

# One over the API where the cloud is asked when needed, one of responses where it always is.
CHATS = (0, 5)


@pytest.mark.services
@pytest.mark.timeout(900)
def test_nothing_is_taken_that_was_not_promised(tmp_path: Path) -> None:
    with attack(tmp_path, DRAGON_ANSWERS="words") as attacked:
        assert [attacked.chat(number) for number in CHATS] == [set()] * len(CHATS)
    assert attacked.counts["promised"] > 3
    assert attacked.counts["steered"]
