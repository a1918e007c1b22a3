"""Places for answers and jobs beside them, shared between callers.

Covers `app.places`.
"""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from app import places
from app.generation import admission
from app.generation.admission import REST, Admission, Threads
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


def burn(seconds: float) -> tuple[float, float]:
    """Take so much of the processor; when that began and ended."""
    began, until = time.monotonic(), time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return began, time.monotonic()


async def test_a_caller_rests_after_what_costs() -> None:
    threads = Threads()
    HOUSEHOLD.set(Household("a"))
    _, ended = await threads.run(lambda: burn(0.05))
    again, _ = await threads.run(lambda: burn(0.05))
    assert again - ended >= REST * 0.05


async def test_nobody_else_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.generation.admission.REST", 100_000)
    threads = Threads()

    async def job(caller: str) -> None:
        HOUSEHOLD.set(Household(caller))
        await threads.run(lambda: burn(0.01))

    await asyncio.create_task(job("a"))
    resting = asyncio.create_task(job("a"))
    await asyncio.create_task(job("b"))
    assert not resting.done()
    resting.cancel()


async def test_who_waits_for_something_takes_no_time_of_anybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.generation.admission.REST", 1_000)
    threads = Threads()
    HOUSEHOLD.set(Household("a"))
    began = time.monotonic()
    for _ in range(2):
        await threads.run(lambda: time.sleep(0.05))
    assert time.monotonic() - began < 1_000 * 0.05


async def test_jobs_of_a_caller_come_one_after_the_other() -> None:
    threads, running, most = Threads(), 0, 0
    HOUSEHOLD.set(Household("a"))

    def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.01)
        running -= 1

    await asyncio.gather(*(threads.run(count) for _ in range(5)))
    assert most == 1


async def test_a_job_that_is_given_up_keeps_its_place_until_it_ends() -> None:
    threads, go_on, begun = Threads(), threading.Event(), threading.Event()
    HOUSEHOLD.set(Household("a"))

    def wait() -> None:
        begun.set()
        go_on.wait(10)

    given_up = asyncio.create_task(threads.run(wait))
    await asyncio.to_thread(begun.wait, 10)
    given_up.cancel()
    second = asyncio.create_task(threads.run(lambda: "second"))
    await asyncio.sleep(0)
    assert not second.done()
    go_on.set()
    assert await second == "second"
    with pytest.raises(asyncio.CancelledError):
        await given_up


async def test_a_job_that_fails_is_rested_from_too() -> None:
    threads = Threads()
    HOUSEHOLD.set(Household("a"))

    def fail() -> None:
        burn(0.05)
        raise ValueError("no grammar")

    with pytest.raises(ValueError, match="no grammar"):
        await threads.run(fail)
    ended = time.monotonic()
    began, _ = await threads.run(lambda: burn(0.0))
    assert began - ended >= REST * 0.05 - 0.01
