"""Tokenwise aggregation: the slow obvious way, which coupled aggregation must equal.

Covers `dragon.protocol.rules.shared_noise`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.protocol.messages import Draft, Limits, Target
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled, Tokenwise
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, World, reference

LIMITS = Limits(frozenset({END}), 12)


@settings(max_examples=150)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.sampled_from(TRUNCATIONS),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.booleans(),
    st.sampled_from([1, 3, 64]),
)
def test_tokenwise_equals_coupled_equals_the_reference(
    seed: int,
    temperature: float,
    truncation: dict[str, Any],
    likeness: float,
    catch_up: bool,
    window: int,
) -> None:
    sampling = Sampling(temperature, seed=seed % 16, **truncation)
    expected = reference(sampling, LIMITS, [(0, LIMITS.tokens)], likeness)
    rules: list[type[Rule]] = [Tokenwise, Coupled]
    for rule in rules:
        world = World(
            seed, sampling, LIMITS, rule=rule, catch_up=catch_up, window=window, likeness=likeness
        )
        assert world.run() == expected
        assert world.device.intervals() == ((0, len(expected)),)
        world.drain()
        assert world.cloud.committed == expected
        assert (world.stalls, world.resyncs) == (0, 0)


def test_only_the_cloud_sends_distributions_and_only_the_device_tokens() -> None:
    world = World(1, Sampling(), LIMITS, rule=Tokenwise)
    tokens = world.run()
    to_cloud = [m for role, m in world.delivered if role is Role.CLOUD]
    to_device = [m for role, m in world.delivered if role is Role.DEVICE]
    world.drain()
    assert all(isinstance(message, Target) for message in to_cloud)
    assert all(isinstance(message, Draft) for message in to_device)
    # A round trip a token: nothing is drafted ahead.
    assert [m.position for m in to_device if isinstance(m, Draft)] == list(range(len(tokens)))
    assert world.longest_channel == 1
