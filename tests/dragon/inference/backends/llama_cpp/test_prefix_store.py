"""Which sequence has the most of a text, and which one goes first."""

from __future__ import annotations

import random

import pytest

from dragon.inference.backends.llama_cpp.prefix_store import KeptTokens, PrefixStore


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
