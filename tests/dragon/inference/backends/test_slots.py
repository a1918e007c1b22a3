"""Slots and the room that they share; which sequence has the most of a text, which is dropped."""

from __future__ import annotations

import random

import pytest

from dragon.inference.backends.slots import BLOCK, KeptTokens, PrefixStore, Slots


def test_slots_are_given_all_or_none() -> None:
    slots = Slots(4)
    taken = slots.acquire(3)
    assert len(set(taken)) == 3
    assert slots.acquire(2) is None
    assert slots.free == 1
    slots.release(taken)
    assert slots.free == 4
    assert sorted(slots.acquire(4) or []) == [0, 1, 2, 3]


def test_slots_in_use_stay_side_by_side() -> None:
    slots = Slots(6)
    pairs = [slots.acquire(2) or [] for _ in range(3)]
    slots.release(pairs[1])
    slots.release(pairs[0])
    assert slots.acquire(2) == [0, 1]
    assert slots.acquire(1) == [2]


def test_an_answer_takes_blocks_and_gives_them_back() -> None:
    slots = Slots(8, context=10 * BLOCK, room=12 * BLOCK)
    long = slots.acquire(1, 9 * BLOCK + 1)
    assert slots.fits(2, BLOCK)
    assert not slots.fits(3, BLOCK)
    short = slots.acquire(2, BLOCK)
    assert not slots.fits(1, 1)
    assert slots.acquire(1, 1) is None
    slots.release(short)
    assert slots.fits(1, 2 * BLOCK)
    slots.release(long or [])
    assert slots.fits(2, 6 * BLOCK)


def test_a_slot_has_room_for_its_context_unless_less_is_asked_for() -> None:
    slots = Slots(8, context=5 * BLOCK, room=12 * BLOCK)
    assert slots.acquire(2) is not None
    assert slots.fits(1, 2 * BLOCK)
    assert not slots.fits(1, 3 * BLOCK)


def test_how_many_rows_there_can_be() -> None:
    slots = Slots(8, context=5 * BLOCK, room=12 * BLOCK)
    assert slots.rows(5 * BLOCK) == 2
    assert slots.rows(1) == 8
    assert Slots(8).rows(100_000) == 8


@pytest.fixture
def emptied() -> list[int]:
    return []


@pytest.fixture
def store(emptied: list[int]) -> PrefixStore:
    return PrefixStore(3, emptied.append)


def holding(store: PrefixStore, tokens: list[int], *, adapted: bool = False) -> KeptTokens:
    run = store.take(adapted=adapted)
    run.tokens = tokens
    run.held = run.sound = len(tokens)
    return run


def asking(store: PrefixStore, tokens: list[int], *, adapted: bool = False) -> KeptTokens:
    run = store.take(adapted=adapted)
    run.tokens = tokens
    return run


def test_the_longest_is_found_in_use_or_kept(store: PrefixStore) -> None:
    used, kept = holding(store, [1, 2, 3]), holding(store, [1, 2, 4, 5])
    store.keep(kept)
    run = asking(store, [1, 2, 4, 5, 6])
    assert store.longest(run, 5) == (kept, 4)
    assert store.longest(run, 3) == (kept, 3)
    run.tokens = [1, 2, 3, 9]
    assert store.longest(run, 4) == (used, 3)
    run.held = 3
    assert store.longest(run, 4) == (None, 3)


def test_what_is_not_sound_is_not_copied(store: PrefixStore) -> None:
    holding(store, [1, 2, 3, 4]).sound = 2
    assert store.longest(asking(store, [1, 2, 3, 4]), 4)[1] == 2


def test_with_an_adapter_and_without_are_kept_apart(store: PrefixStore) -> None:
    holding(store, [1, 2, 3], adapted=True)
    assert store.longest(asking(store, [1, 2, 3]), 3) == (None, 0)


def test_what_was_used_longest_ago_goes_first(store: PrefixStore, emptied: list[int]) -> None:
    runs = [holding(store, [number] * 4) for number in range(3)]
    for run in runs:
        store.keep(run)
    assert emptied == []
    again = store.take(adapted=False)
    assert emptied == [runs[0].sequence]
    again.tokens = [1, 1, 7]
    assert store.longest(again, 3) == (runs[1], 2)
    assert store.evict()
    assert emptied[-1] == runs[2].sequence
    assert store.evict()
    assert not store.evict()


def test_one_that_another_covers_goes_at_once(store: PrefixStore, emptied: list[int]) -> None:
    short, long = holding(store, [1, 2]), holding(store, [1, 2, 3])
    store.keep(short)
    store.keep(long)
    assert emptied == [short.sequence]


def test_it_agrees_with_a_search_of_all(store: PrefixStore) -> None:
    chance = random.Random(1)
    for _ in range(300):
        store = PrefixStore(9, lambda _: None)
        runs = [
            holding(store, [chance.randint(1, 2) for _ in range(chance.randint(1, 6))])
            for _ in range(8)
        ]
        run = asking(store, [chance.randint(1, 2) for _ in range(5)])
        limit = chance.randint(1, 5)
        commons = [
            max(
                n for n in range(limit + 1) if each.tokens[:n] == run.tokens[:n] and n <= each.sound
            )
            for each in runs
        ]
        assert store.longest(run, limit)[1] == max(commons)
