"""Who asks for much does not keep out who asks for little."""

from __future__ import annotations

import pytest

from dragon.inference.fairness import FairQueue, shared


def test_callers_take_turns_and_each_keeps_its_order() -> None:
    queue = FairQueue[str]()
    for item in ("a1", "a2", "a3", "b1", "a4", "b2", "c1"):
        queue.put(item[0], item)
    assert len(queue) == 7
    assert queue.first() == "a1"
    assert [queue.take() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert not queue


def test_who_comes_later_waits_for_one_item_of_each() -> None:
    queue = FairQueue[str]()
    for number in range(100):
        queue.put("a", f"a{number}")
    assert queue.take() == "a0"
    queue.put("b", "b0")
    assert [queue.take(), queue.take()] == ["a1", "b0"]


def test_one_who_may_not_is_passed_over() -> None:
    queue = FairQueue[str]()
    queue.put("a", "a1")
    with pytest.raises(LookupError):
        queue.take(lambda caller: caller != "a")
    queue.put("b", "b1")
    assert queue.take(lambda caller: caller != "a") == "b1"
    queue.keep(lambda item: item != "a1")
    assert len(queue) == 0


def test_a_turn_is_shared_and_nothing_is_left_out() -> None:
    items = [*(f"a{number}" for number in range(10)), "b0", "c0", "c1"]
    chosen, rest = shared(items, lambda item: item[0], 5)
    assert chosen == ["a0", "a1", "b0", "c0", "c1"]
    assert sorted([*chosen, *rest]) == sorted(items)
    assert rest == [f"a{number}" for number in range(2, 10)]
    assert shared(items[:10], lambda item: item[0], 5) == (items[:10], [])
