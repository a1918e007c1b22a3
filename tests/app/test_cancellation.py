"""Work that a cancel must not leave half done."""

from __future__ import annotations

import asyncio

import pytest

from app.cancellation import to_the_end


async def test_a_cancel_takes_effect_once_the_work_is_done() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    waiting = asyncio.create_task(to_the_end(work()))
    await begun.wait()
    for _ in range(2):  # an impatient caller cancels again
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done.is_set()


async def test_its_result_and_its_error_are_those_of_the_work() -> None:
    async def work(number: int) -> float:
        return 1 / number

    assert await to_the_end(work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await to_the_end(work(0))
