"""Who asks for much does not keep out who asks for little."""

from __future__ import annotations

from collections import Counter

import pytest

from dragon.inference.fairness import Caller, FairQueue, Household, SharedQueue, Turns, due


def test_callers_take_turns_and_each_keeps_its_order() -> None:
    queue = FairQueue[str]()
    for item in ("a1", "a2", "a3", "b1", "a4", "b2", "c1"):
        queue.put(item[0], item)
    assert len(queue) == 7
    assert queue.first() == "a1"
    assert [queue.take() for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert not queue


def test_one_who_may_not_is_passed_over() -> None:
    queue = FairQueue[str]()
    queue.put("a", "a1")
    with pytest.raises(LookupError):
        queue.take(lambda caller: caller != "a")
    queue.put("b", "b1")
    assert queue.take(lambda caller: caller != "a") == "b1"
    queue.keep(lambda item: item != "a1")
    assert len(queue) == 0


def alone(item: str) -> Caller:
    """A household of one."""
    return Caller(Household(item[0]), "")


def test_a_turn_is_shared_and_nothing_is_left_out() -> None:
    items = [*(f"a{number}" for number in range(10)), "b0", "c0", "c1"]
    chosen, rest = Turns().shared(items, alone, 5)
    assert chosen == ["a0", "a1", "b0", "c0", "c1"]
    assert sorted([*chosen, *rest]) == sorted(items)
    assert rest == [f"a{number}" for number in range(2, 10)]
    assert Turns().shared(items[:10], alone, 5) == (items[:10], [])


def test_one_with_many_callers_has_no_more_of_a_turn() -> None:
    """Which would be so if the eight lanes of one key took turns with another's one."""
    items = [*(f"a{number}" for number in range(8)), "b0", "b1", "b2", "b3"]
    chosen, _ = Turns().shared(items, lambda item: Caller(Household(item[0]), item), 6)
    assert chosen == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_a_turn_goes_by_weight() -> None:
    weights = {"a": Household("a", 3), "b": Household("b", 1)}
    items = [*(f"a{number}" for number in range(9)), *(f"b{number}" for number in range(9))]
    chosen, _ = Turns().shared(items, lambda item: Caller(weights[item[0]], ""), 8)
    assert [item[0] for item in chosen] == ["a"] * 6 + ["b"] * 2


@pytest.mark.parametrize(("most", "light"), [(2, 0), (5, 1), (6, 1), (10, 2)])
def test_a_light_one_gets_no_more_than_its_share_of_a_short_turn(most: int, light: int) -> None:
    weights = {"a": Household("a", 1), "b": Household("b", 4)}
    items = [f"{name}{number}" for name in "ab" for number in range(10)]
    chosen, rest = Turns().shared(items, lambda item: Caller(weights[item[0]], ""), most)
    assert [item[0] for item in chosen] == ["a"] * light + ["b"] * (most - light)
    assert sorted([*chosen, *rest]) == sorted(items)


@pytest.mark.parametrize(
    ("weights", "most"), [({"a": 0.5, **dict.fromkeys("bcdefghij", 1)}, 8), ({"a": 1, "b": 20}, 5)]
)
@pytest.mark.parametrize("away", [0, 1])
def test_over_many_turns_a_light_one_has_its_share(
    weights: dict[str, float], most: int, away: int
) -> None:
    """Also if the others' next items come a turn later, as those of an answer in two places do."""
    turns, served = Turns(), Counter[str]()
    waiting = [name for name in weights for _ in range(20)]
    coming: list[list[str]] = [[] for _ in range(away)]
    for _ in range(200):
        chosen, left = turns.shared(
            waiting, lambda name: Caller(Household(name, weights[name]), name), most
        )
        served.update(chosen)
        coming.append(chosen)
        waiting = [*left, *coming.pop(0)]
    for name, weight in weights.items():
        due = 200 * most * weight / sum(weights.values())
        assert served[name] == pytest.approx(due, rel=0.1, abs=4)


def test_a_queue_goes_by_weight_and_by_turns_within() -> None:
    queue = SharedQueue[str]()
    a, b = Household("a", 2), Household("b", 1)
    for number in range(8):
        queue.put(Caller(a, f"lane {number % 2}"), f"a{number}")
        queue.put(Caller(b, ""), f"b{number}")
    taken = [queue.take() for _ in range(9)]
    assert sum(item[0] == "a" for item in taken) == 6
    assert [item for item in taken if item[0] == "a"] == ["a0", "a1", "a2", "a3", "a4", "a5"]
    assert queue.first() == queue.take()
    queue.keep(lambda item: item == "b7")
    assert (len(queue), queue.take()) == (1, "b7")
    with pytest.raises(LookupError):
        queue.take()


def test_who_was_away_has_saved_nothing_up() -> None:
    queue = SharedQueue[str]()
    busy, away = Caller(Household("busy"), ""), Caller(Household("away"), "")
    queue.put(away, "away")
    assert queue.take() == "away"
    for number in range(100):
        queue.put(busy, f"busy {number}")
        queue.take()
    for number in range(3):
        queue.put(away, f"away {number}")
        queue.put(busy, f"busy {number}")
    taken = [queue.take().split()[0] for _ in range(6)]
    assert "busy" in taken[:3]


def test_who_works_without_pause_keeps_his_place() -> None:
    """Who puts the next item in only when one was taken is not sent back to the end."""
    queue = SharedQueue[str]()
    many, few = Caller(Household("many"), ""), Caller(Household("few"), "")
    queue.put(few, "few")
    for _ in range(10):
        queue.put(many, "many")
    served = []
    for _ in range(10):
        served.append(queue.take())
        if served[-1] == "few":
            queue.put(few, "few")
    assert served.count("few") == 5


def test_households_have_what_the_least_wanting_one_has_and_little_more() -> None:
    items = [*(f"a{number}" for number in range(32)), "b0", "c0"]
    chosen, rest = Turns().shared(items, alone, 100, lambda due: due)
    assert chosen == ["a0", "b0", "c0"]
    assert sorted([*chosen, *rest]) == sorted(items)
    chosen, _ = Turns().shared(items, alone, 100, lambda due: due + 2)
    assert chosen == ["a0", "a1", "a2", "b0", "c0"]
    chosen, _ = Turns().shared(items, alone, 4, lambda due: due + 2)
    assert chosen == ["a0", "a1", "b0", "c0"]
    # Of one household's, whoever is alone has all.
    assert Turns().shared(items[:32], alone, 100, lambda due: due) == (items[:32], [])


def test_what_is_due_goes_by_weight() -> None:
    a, b = Household("a", 2), Household("b", 0.5)
    assert due({a: 9, b: 1}) == 5
    assert due({a: 1, b: 9}) == 2
