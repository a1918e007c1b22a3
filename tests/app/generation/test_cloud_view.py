"""The cloud never sees of a conversation what it was not given before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.generation.cloud_view import MARK, CloudView, Known
from app.owners import acting_as
from app.storage.database import connect, database_url, migrate, session_maker
from dragon.inference.tokenizer import Message
from dragon.inference.tools import ToolCall


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[object]:
    await asyncio.to_thread(migrate, database_url(tmp_path))
    database = connect(database_url(tmp_path))
    yield session_maker(database)
    await database.dispose()


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


BLANK = [user("..."), assistant("...")]
CHAT = [
    Message("system", "Be brief."),
    user("What is the capital of Kenya?"),
    assistant("Nairobi."),
    user("What is the wifi password?"),
    assistant("It is heron-42-lantern."),
    user("And the alarm code?"),
    assistant("It is 4471."),
    user("How high is Mount Kenya?"),
]


async def test_what_the_device_wrote_alone_is_one_mark(sessions: object) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    view.wrote("Nairobi.", Known(True, ((0, 8),)))
    view.wrote(" It is heron-42-lantern.\n", Known())
    view.wrote("It is 4471.", Known())
    expected = [*CHAT[:3], *BLANK, CHAT[-1]]
    assert await view.of(CHAT, trusted=True) == expected
    await view.close()
    # And so it is after a restart.
    assert await CloudView(sessions).of(CHAT, trusted=True) == expected  # type: ignore[arg-type]


async def test_of_a_question_it_was_asked_it_knows_its_part_of_the_answer(sessions: object) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    text = "Nairobi. Your code is 4471. Bye."
    view.wrote(text, Known(True, ((0, 8), (27, 32))))
    shown = await view.of([user("Both?"), assistant(text), user("More?")], trusted=False)
    assert shown == [user("Both?"), assistant("Nairobi. ... Bye."), user("More?")]
    view.wrote("4471.", Known(True))  # asked, and left out
    shown = await view.of([user("Code?"), assistant("4471."), user("More?")], trusted=False)
    assert shown == [user("Code?"), assistant("..."), user("More?")]
    await view.close()


async def test_an_answer_from_elsewhere_is_shown_where_the_cloud_is_always_asked(
    sessions: object,
) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    assert await view.of(CHAT, trusted=True) == CHAT
    assert await view.of(CHAT, trusted=False) == [CHAT[0], *BLANK, CHAT[-1]]


async def test_of_calls_and_what_tools_return_it_sees_the_names(sessions: object) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    call = ToolCall("find_key", '{"room": "attic"}', "call_1")
    asked = [
        user("Where is the key?"),
        Message("assistant", "Let me look.", (call,)),
        Message("tool", "In the red box.", (), "call_1"),
    ]
    shown = await view.of(asked, trusted=False)
    assert shown == [
        asked[0],  # the question that it is asked now
        Message("assistant", MARK, (replace(call, arguments="{}"),)),
        Message("tool", MARK, (), "call_1"),
    ]
    assert await view.of(asked, trusted=True) == asked
    # Once it is answered it is an earlier question, which the cloud was never asked.
    later = [*asked, assistant("In the red box."), user("Which floor?")]
    shown = await view.of(later, trusted=False)
    assert [message.content for message in shown] == [MARK, MARK, MARK, MARK, "Which floor?"]
    await view.close()


async def test_the_last_answer_of_a_text_counts(sessions: object) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    for known in (Known(), Known(True, ((0, 8),))):
        view.wrote("Nairobi.", known)
        await view.close()
    assert await view.known("Nairobi.") == Known(True, ((0, 8),))


async def test_an_answer_to_be_continued_ends_where_it_stopped(sessions: object) -> None:
    view = CloudView(sessions)  # type: ignore[arg-type]
    text = "Rowing:\n```python\n"
    view.wrote(text, Known(True, ((0, len(text)),)))
    stopped = [user("Show me."), assistant(text)]
    assert await view.of(stopped, trusted=False) == stopped
    known = await view.known(text)
    assert known is not None
    assert known.of(text) == text
    going_on = [*stopped, user("Thanks.")]
    shown = await view.of(going_on, trusted=False)
    assert shown == [stopped[0], assistant(text.strip()), user("Thanks.")]
    await view.close()


async def test_what_the_cloud_knows_of_ones_answer_it_does_not_know_of_anothers(
    sessions: object,
) -> None:
    """Though they are of the same text: their questions are not."""
    view = CloudView(sessions)  # type: ignore[arg-type]
    with acting_as("anna"):
        view.wrote("Yes.", Known(True, ((0, 4),)))
    with acting_as("ben"):
        assert await view.known("Yes.") is None
        view.wrote("Yes.", Known())
    await view.close()
    with acting_as("anna"):
        assert await view.known("Yes.") == Known(True, ((0, 4),))
    with acting_as("ben"):
        assert await view.known("Yes.") == Known()
