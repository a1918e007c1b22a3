"""Jobs beside answers: one of a caller at once, and rests in proportion to what they cost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from app.generation.admission import REST, Threads
from dragon.inference.fairness import HOUSEHOLD, Household


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
