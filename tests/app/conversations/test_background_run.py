"""Answers written in the background, as their readers and the store see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from app.conversations import background_run
from app.conversations.background_run import BackgroundRun, BackgroundRuns
from app.conversations.record import Ending
from app.conversations.store import ConversationStore
from app.generation.events import Event, Finished, GenerationRequest, SourcesFound, TextDelta
from app.owners import acting_as
from app.problems import INTERNAL
from app.storage.tables import MessageState
from dragon.sampling.params import Sampling
from tests.app.stores import known
from tests.fakes import SOURCE, FakeGeneration


@pytest.fixture
async def runs(
    tmp_path: Path, conversations: ConversationStore, generation: FakeGeneration
) -> AsyncIterator[BackgroundRuns]:
    known(tmp_path, SOURCE.id, SOURCE.title)
    runs = BackgroundRuns(conversations, generation.write, "a model")
    yield runs
    await runs.close()


async def prepare() -> tuple[GenerationRequest, int]:
    return GenerationRequest((1,), "Where?", Sampling()), 3


async def read(run: BackgroundRun) -> list[Event]:
    async with aclosing(run.follow()) as batches:
        return [event async for events in batches for event in events]


async def test_every_reader_gets_all_events(
    runs: BackgroundRuns, conversations: ConversationStore, generation: FakeGeneration
) -> None:
    generation.delay = 0.01
    _, _, answer = await conversations.ask(None, None, "Where?", private=False)
    run = runs.start(answer, prepare)
    early = asyncio.create_task(read(run))
    async with aclosing(run.follow()) as batches:
        async for events in batches:
            if any(isinstance(event, TextDelta) for event in events):
                break
    assert (runs.count, runs.get(answer.id)) == (1, run)
    late = await read(run)
    assert late == await early
    assert isinstance(late[0], SourcesFound)
    assert isinstance(late[-1], Finished)
    texts = [event.text for event in late if isinstance(event, TextDelta)]
    assert "".join(texts) == run.written.text == generation.script
    assert (runs.count, runs.get(answer.id)) == (0, None)
    stored = await conversations.message(answer.id)
    assert (stored.state, stored.text) == (MessageState.DONE, generation.script)
    assert stored.record["asked"]["left_out"] == 3
    assert stored.record["asked"]["model"] == "a model"


async def test_what_fails_is_logged_once_and_stored_without_details(
    runs: BackgroundRuns,
    conversations: ConversationStore,
    generation: FakeGeneration,
    caplog: pytest.LogCaptureFixture,
) -> None:
    generation.fail_after = 2
    _, _, answer = await conversations.ask(None, None, "Where?", private=False)
    run = runs.start(answer, prepare)
    await read(run)
    assert run.written.ending == Ending(MessageState.ERROR, INTERNAL)
    assert [record.getMessage() for record in caplog.records] == ["an answer failed"]
    stored = await conversations.message(answer.id)
    assert (stored.state, stored.record["error"]["code"]) == (MessageState.ERROR, "internal_error")
    assert "secret" not in str(stored.record)


async def test_an_answer_that_cannot_be_stored_ends_as_an_error(
    runs: BackgroundRuns, conversations: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    _, _, answer = await conversations.ask(None, None, "Where?", private=False)
    monkeypatch.setattr(conversations, "save", fail)
    run = runs.start(answer, prepare)
    await read(run)
    assert run.written.ending == Ending(MessageState.ERROR, INTERNAL)


async def test_an_answer_that_is_being_written_is_there_for_its_owner_alone(
    runs: BackgroundRuns, conversations: ConversationStore, generation: FakeGeneration
) -> None:
    generation.prefilling.set()
    with acting_as("anna"):
        _, _, answer = await conversations.ask(None, None, "Where?", private=False)
        run = runs.start(answer, prepare)
    _, _, other = await conversations.ask(None, None, "Where?", private=False)
    own = runs.start(other, prepare)
    assert runs.get(answer.id) is None
    with acting_as("ben"):
        assert runs.get(answer.id) is None
        await runs.stop_reading(SOURCE.id)
    assert run.written.ending is None
    with acting_as("anna"):
        assert runs.get(answer.id) is run
    runs.stop_of("anna")  # whose key is revoked
    generation.prefilling.clear()
    await run.ended()
    await own.ended()
    with acting_as("anna"):
        assert (await conversations.message(answer.id)).state == MessageState.STOPPED
    assert (await conversations.message(other.id)).state == MessageState.DONE


async def test_an_answer_begun_while_the_others_are_stopped_is_stored_too(
    runs: BackgroundRuns,
    conversations: ConversationStore,
    generation: FakeGeneration,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_run, "_DRAIN_S", 0.05)
    generation.prefilling.set()
    _, _, first = await conversations.ask(None, None, "Where?", private=False)
    _, _, second = await conversations.ask(None, None, "Who?", private=False)
    runs.start(first, prepare)
    closing = asyncio.create_task(runs.close())
    await asyncio.sleep(0)  # it waits for the first
    assert not closing.done()
    runs.start(second, prepare)
    await closing
    for answer in (first, second):
        assert (await conversations.message(answer.id)).state == MessageState.STOPPED


async def test_closing_waits_for_an_answer_that_is_being_continued_already(
    runs: BackgroundRuns, conversations: ConversationStore, generation: FakeGeneration
) -> None:
    generation.delay = 0.01
    _, _, answer = await conversations.ask(None, None, "Where?", private=False)
    before = runs.start(answer, prepare)
    after = runs.start(answer, prepare)
    before.stop()
    await before.ended()
    await asyncio.wait([before.task])
    assert runs.get(answer.id) is after
    await runs.close()
    assert after.over
