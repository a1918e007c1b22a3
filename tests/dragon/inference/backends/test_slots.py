"""Slots and the room that they share."""

from __future__ import annotations

from dragon.inference.backends.slots import BLOCK, Slots


def test_slots_are_given_all_or_none() -> None:
    slots = Slots(4)
    taken = slots.acquire(3)
    assert taken is not None
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
    assert short is not None
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
