"""Places for answers, shared between callers.

Covers `app.places`.
"""

from __future__ import annotations

import asyncio

import pytest

from app import places
from app.generation import admission
from app.generation.admission import Admission
from dragon.errors import OverloadedError
from dragon.inference.fairness import HOUSEHOLD, Household


class Answers:
    """Answers that go on until they are told to end."""

    def __init__(self, places: Admission) -> None:
        self._places = places
        self.over = asyncio.Event()
        self.begun: list[str] = []

    async def ask(self, name: str) -> str:
        """Write an answer of the caller that the name begins with."""
        HOUSEHOLD.set(Household(name[0]))
        async with self._places.place():
            self.begun.append(name)
            await self.over.wait()
        return name

    def at_once(self, *names: str) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self.ask(name)) for name in names]


async def test_a_second_caller_finds_a_place_beside_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_WAIT_S", 0.01)
    answers = Answers(Admission(places=4, for_one=3))
    first = answers.at_once("a1", "a2", "a3", "a4", "a5")
    await asyncio.wait(first, return_when=asyncio.FIRST_EXCEPTION)
    second = answers.at_once("b1")
    await asyncio.sleep(0)
    assert answers.begun == ["a1", "a2", "a3", "b1"]
    answers.over.set()
    results = await asyncio.gather(*first, *second, return_exceptions=True)
    assert results[:3] + results[5:] == ["a1", "a2", "a3", "b1"]
    assert all(isinstance(each, OverloadedError) for each in results[3:5])


async def test_places_that_become_free_go_from_caller_to_caller() -> None:
    answers = Answers(Admission(places=1, for_one=1))
    tasks = answers.at_once("a1", "a2", "a3", "b1")
    await asyncio.sleep(0)  # all of them have asked
    answers.over.set()
    await asyncio.gather(*tasks)
    assert answers.begun == ["a1", "a2", "b1", "a3"]


async def test_who_gives_up_or_is_refused_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_WAIT_S", 0.01)
    places = Admission(places=1, for_one=1)
    answers = Answers(places)
    (first,) = answers.at_once("a1")
    waiting = answers.at_once("a2", "a3")
    await asyncio.sleep(0)
    waiting[0].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert isinstance(results[1], OverloadedError)
    answers.over.set()
    await first
    assert await answers.ask("b1") == "b1"


async def test_who_has_many_that_wait_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_WAIT_S", 3600.0)
    monkeypatch.setattr(places, "_MOST_WAITING", 2)
    answers = Answers(Admission(places=1, for_one=1))
    tasks = answers.at_once("a1", "a2", "a3", "b1")
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await answers.ask("a4")
    answers.over.set()
    assert await asyncio.gather(*tasks) == ["a1", "a2", "a3", "b1"]
    assert await answers.ask("a5") == "a5"


async def test_it_is_idle_once_the_last_answer_has_ended() -> None:
    places = Admission()
    await places.idle()
    answers = Answers(places)
    asked = answers.at_once("a1", "b1")
    await asyncio.sleep(0)
    waiting = asyncio.create_task(places.idle())
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.over.set()
    await asyncio.gather(*asked)
    await waiting
