"""How many steps fit into a turn: by what they cost together, which is another thing on a GPU."""

from __future__ import annotations

import random

import pytest

from dragon.inference.fairness import TurnLength


def seen(fixed_s: float, step_s: float, lengths: range, noise: float = 0.0) -> TurnLength:
    turn, chance = TurnLength(), random.Random(1)
    for _ in range(2000):
        steps = chance.choice(lengths)
        seconds = fixed_s + steps * step_s
        turn.add(steps, seconds * (1 + noise * chance.uniform(-1, 1)))
    return turn


def test_callers_share_a_turn_of_limited_length() -> None:
    turn = TurnLength()
    assert turn.most == 8
    turn.add(4, 0.008)
    assert turn.most == 20
    turn.add(4, 0.8)
    assert turn.most == 8


@pytest.mark.parametrize(
    ("fixed_s", "step_s", "least", "most"),
    [(0.0, 0.002, 5, 6), (0.01, 0.002, 7, 8), (0.02, 0.0002, 25, 35)],
)
def test_other_steps_are_added_as_far_as_they_cost_little(
    fixed_s: float, step_s: float, least: int, most: int
) -> None:
    turn = seen(fixed_s, step_s, range(4, 9), noise=0.02)
    assert least <= turn.most_of_several(5) <= most


def test_before_turns_have_told_each_step_costs_alike() -> None:
    assert TurnLength().most_of_several(8) == 10
    assert seen(0.01, 0.0, range(5, 6)).most_of_several(8) == 10
