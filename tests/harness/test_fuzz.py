"""Nothing that arrives on the link goes unhandled.

`python -m bench.reliability --scenarios frames` sends a million each way.
"""

from __future__ import annotations

import pytest

from dragon.link import registry
from dragon.sampling.role import Role
from harness.faults.fuzz import feed, right


@pytest.mark.parametrize("receiver", list(Role))
def test_wrong_frames_are_refused_or_borne(receiver: Role) -> None:
    counts = feed(receiver, 20_000, seed=17)
    assert counts.refused > 5_000
    assert counts.taken > 1_000


@pytest.mark.parametrize("sender", list(Role))
def test_they_begin_as_right_ones_of_every_kind(sender: Role) -> None:
    for message in right(sender):
        assert registry.decode(registry.encode(message, 1), sender, 8192) == (1, message)
    kinds = {type(message) for message in right(Role.DEVICE) + right(Role.CLOUD)}
    assert kinds == set(registry._BY_MESSAGE)
