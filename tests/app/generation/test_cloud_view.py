"""The cloud never sees of a conversation what it was not given before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from app.generation.cloud_view import MARK, CloudView, Known
from app.ledger.leakage import Part, PartKind
from app.owners import acting_as
from app.storage import database
from app.storage.database import Sessions, connect, session_maker
from dragon.inference.tokenizer import Message
from dragon.inference.tools import ToolCall
from harness.faults import disk
from tests.app.stores import migrated


@pytest.fixture
async def view(sessions: Sessions) -> AsyncIterator[CloudView]:
    view = CloudView(sessions)
    yield view
    await view.close()


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


async def seen(view: CloudView, messages: list[Message], *, trusted: bool) -> list[Message]:
    return list((await view.of(messages, trusted=trusted)).messages)


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
CALL = ToolCall("find_key", '{"room": "attic"}', "call_1")
CALLED = [
    user("Where is the key?"),
    Message("assistant", "", (CALL,)),
    Message("tool", "In the red box.", (), "call_1"),
]


async def test_what_the_device_wrote_alone_is_one_mark(view: CloudView) -> None:
    view.wrote(CHAT[1].content, "Nairobi.", Known(True, ((0, 8),)))
    view.wrote(CHAT[3].content, " It is heron-42-lantern.\n", Known())
    view.wrote(CHAT[5].content, "It is 4471.", Known())
    expected = [*CHAT[:3], *BLANK, CHAT[-1]]
    assert await seen(view, CHAT, trusted=True) == expected
    await view.close()
    # And so it is after a restart.
    assert await seen(CloudView(view.sessions), CHAT, trusted=True) == expected


async def test_of_a_question_it_was_asked_it_knows_its_part_of_the_answer(view: CloudView) -> None:
    text = "Nairobi. Your code is 4471. Bye."
    view.wrote("Both?", text, Known(True, ((0, 8), (27, 32))))
    shown = await seen(view, [user("Both?"), assistant(text), user("More?")], trusted=False)
    assert shown == [user("Both?"), assistant("Nairobi. ... Bye."), user("More?")]
    view.wrote("Code?", "4471.", Known(True))  # asked, and left out
    shown = await seen(view, [user("Code?"), assistant("4471."), user("More?")], trusted=False)
    assert shown == [user("Code?"), assistant("..."), user("More?")]


async def test_an_answer_from_elsewhere_is_shown_where_the_cloud_is_always_asked(
    view: CloudView,
) -> None:
    assert await seen(view, CHAT, trusted=True) == CHAT
    assert await seen(view, CHAT, trusted=False) == [CHAT[0], *BLANK, CHAT[-1]]


async def test_of_calls_and_what_tools_return_it_sees_the_names(view: CloudView) -> None:
    look = Message("assistant", "Let me look.", (CALL,), reasoning="It may be red.", name="Ida")
    asked = [CALLED[0], look, CALLED[2]]
    shown = await seen(view, asked, trusted=False)
    assert shown == [
        asked[0],  # the question that it is asked now
        Message("assistant", MARK, (replace(CALL, arguments="{}"),)),
        Message("tool", MARK, (), "call_1"),
    ]
    assert await seen(view, asked, trusted=True) == asked
    # Once it is answered it is an earlier question, which the cloud was never asked.
    later = [*asked, assistant("In the red box."), user("Which floor?")]
    shown = await seen(view, later, trusted=False)
    assert [message.content for message in shown] == [MARK, MARK, MARK, MARK, "Which floor?"]


async def test_the_last_answer_of_a_text_counts(view: CloudView) -> None:
    for known in (Known(), Known(True, ((0, 8),))):
        view.wrote("Capital?", "Nairobi.", known)
        await view.close()
    assert await view.known("Capital?", "Nairobi.") == Known(True, ((0, 8),))


async def test_an_answer_to_be_continued_ends_where_it_stopped(view: CloudView) -> None:
    text = "Rowing:\n```python\n"
    view.wrote("Show me.", text, Known(True, ((0, len(text)),)))
    stopped = [user("Show me."), assistant(text)]
    assert await seen(view, stopped, trusted=False) == stopped
    known = await view.known("Show me.", text)
    assert known is not None
    assert known.of(text) == text
    going_on = [*stopped, user("Thanks.")]
    shown = await seen(view, going_on, trusted=False)
    assert shown == [stopped[0], assistant(text.strip()), user("Thanks.")]


async def test_what_the_cloud_knows_of_ones_answer_it_does_not_know_of_anothers(
    view: CloudView,
) -> None:
    """Though they are of the same text: their questions are not."""
    with acting_as("anna"):
        view.wrote("Is it?", "Yes.", Known(True, ((0, 4),)))
    with acting_as("ben"):
        assert await view.known("Is it?", "Yes.") is None
        view.wrote("Is it?", "Yes.", Known())
    await view.close()
    with acting_as("anna"):
        assert await view.known("Is it?", "Yes.") == Known(True, ((0, 4),))
    with acting_as("ben"):
        assert await view.known("Is it?", "Yes.") == Known()


async def test_a_question_without_an_answer_is_no_question_that_the_cloud_was_asked(
    view: CloudView,
) -> None:
    first, second, last = user("Who is my therapist?"), user("Since when?"), user("Who is Volta?")
    assert await seen(view, [first, last], trusted=False) == [BLANK[0], last]
    assert await seen(view, [first, second, last], trusted=False) == [BLANK[0], last]
    assert await seen(view, [first, last], trusted=True) == [first, last]
    answered = [first, second, assistant("Volta."), last]
    view.wrote(second.content, "Volta.", Known(True, ((0, 6),)))
    assert await seen(view, answered, trusted=False) == [BLANK[0], *answered[1:]]


async def test_two_questions_with_one_answer_are_told_apart(view: CloudView) -> None:
    """Else the private one would go up once the cloud was asked the other."""
    private, public = user("Do I take lithium?"), user("Is Nairobi in Kenya?")
    chat = [private, assistant("Yes."), public, assistant("Yes."), user("And Mombasa?")]
    view.wrote(private.content, "Yes.", Known())
    view.wrote(public.content, "Yes.", Known(True, ((0, 4),)))
    for again in (view, CloudView(view.sessions)):
        assert await seen(again, chat, trusted=True) == [*BLANK, *chat[2:]]
        # A client that has changed the question is known by the answer, and by the least of it.
        changed = [user("Lithium?"), *chat[1:]]
        assert await seen(again, changed, trusted=True) == [*BLANK, *chat[2:]]
        await view.close()


async def test_a_private_turn_stays_so_however_a_client_sends_it_back(view: CloudView) -> None:
    private, public = user("Do I take lithium?"), user("Is Nairobi in Kenya?")
    thought = "<think>\nThe note says so.\n</think>\n\nYes, since May."
    view.wrote(private.content, thought, Known())
    view.wrote(public.content, "Yes.", Known(True, ((0, 4),)))
    last = user("And Mombasa?")
    for again in (view, CloudView(view.sessions)):
        for answer in (thought, "Yes, since May.", "**Yes**, since May.", "Yes."):
            chat = [private, assistant(answer), last]
            assert await seen(again, chat, trusted=True) == [*BLANK, last]
        # Nor if it was given up before it was answered, or is answered elsewhere as another was.
        assert await seen(again, [private, last], trusted=True) == [BLANK[0], last]
        chat = [user("Am I bipolar?"), assistant("Yes."), last]
        assert (await seen(again, chat, trusted=False))[0] == BLANK[0]
        await view.close()


async def test_calls_of_a_private_turn_are_private(view: CloudView) -> None:
    view.wrote(CALLED[0].content, "<tool_call>find_key</tool_call>", Known())
    last = user("How high is Mount Kenya?")
    blank = Message("assistant", "", (replace(CALL, arguments="{}"),))
    expected = [BLANK[0], blank, Message("tool", MARK, (), "call_1")]
    assert await seen(view, [*CALLED, last], trusted=True) == [*expected, last]
    view.wrote(CALLED[0].content, "In the red box.", Known())
    chat = [*CALLED, assistant("In the red box."), last]
    assert await seen(view, chat, trusted=True) == [*expected, BLANK[1], last]


async def test_of_an_answer_with_reasoning_the_cloud_knows_the_same_without(
    view: CloudView,
) -> None:
    thought = "<think>\nEasy.\n</think>\n\n"
    text = f"{thought}Nairobi. Your code is 4471."
    view.wrote("Both?", text, Known(True, ((0, len(thought) + 8),)))
    for answer in (text, text.removeprefix(thought)):
        chat = [user("Both?"), assistant(answer), user("More?")]
        told = answer.replace("Your code is 4471.", "...")
        assert await seen(view, chat, trusted=False) == [chat[0], assistant(told), chat[2]]


async def test_what_is_given_is_named_by_kind(view: CloudView) -> None:
    view.wrote(CHAT[1].content, "Nairobi.", Known(True, ((0, 8),)))
    view.wrote(CHAT[3].content, "It is heron-42-lantern.", Known())
    chat = [*CHAT[:5], CHAT[-1], CALLED[1], Message("tool", "None.")]
    assert (await view.of(chat, trusted=True)).parts == (
        Part(PartKind.INSTRUCTIONS, "Be brief."),
        Part(PartKind.EARLIER, "What is the capital of Kenya?"),
        Part(PartKind.ANSWERS, None),
        Part(PartKind.QUESTION, "How high is Mount Kenya?"),
        Part(PartKind.TOOLS, 'find_key({"room": "attic"})'),
        Part(PartKind.TOOLS, "None."),
    )
    (*_, foreign, _) = (
        await view.of([user("Hi"), assistant("Ho."), user("Hm?")], trusted=True)
    ).parts
    assert foreign == Part(PartKind.ANSWERS, "Ho.")
    thought = replace(CALLED[1], reasoning="It may be red.")
    named = [Message("user", "Where is the key?", name="Ida"), thought]
    assert (await view.of(named, trusted=True)).parts == (
        Part(PartKind.QUESTION, "Ida Where is the key?"),
        Part(PartKind.TOOLS, 'It may be red. find_key({"room": "attic"})'),
    )


async def test_a_long_chat_is_looked_up_in_few_queries(tmp_path: Path) -> None:
    engine = connect(migrated(tmp_path))
    view = CloudView(session_maker(engine))
    turns = [turn for n in range(5_000) for turn in (user(f"Is {n} odd?"), assistant(f"{n} is."))]
    view.wrote("Is 3 odd?", "3 is.", Known(True, ((0, 5),)))
    view.wrote("Is 4999 odd?", "4999 is.", Known(True, ((0, 8),)))
    await view.close()
    view.wrote("Is 4 odd?", "4 is.", Known(True))
    queries: list[str] = []
    event.listen(
        engine.sync_engine, "before_cursor_execute", lambda *called: queries.append(called[2])
    )
    shown = await seen(view, [*turns, user("Is 6?")], trusted=False)
    assert shown == [*BLANK, *turns[6:9], BLANK[1], *BLANK, *turns[-2:], user("Is 6?")]
    assert sum("known_answers" in query for query in queries) < 10
    await view.close()
    await engine.dispose()


async def test_what_the_cloud_knows_is_stored_once_the_database_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_PRAGMAS", ("journal_mode = WAL", "busy_timeout = 1"))
    waits: list[float] = []
    locked = ExitStack()

    async def freed(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            locked.close()

    engine = connect(migrated(tmp_path))
    view = CloudView(session_maker(engine))
    locked.enter_context(disk.locked(tmp_path))
    monkeypatch.setattr("app.generation.cloud_view.asyncio.sleep", freed)
    view.wrote("Capital?", "Nairobi.", Known(True, ((0, 8),)))
    await view.close()
    monkeypatch.undo()
    assert len(waits) == 2
    assert await CloudView(view.sessions).known("Capital?", "Nairobi.") == Known(True, ((0, 8),))
    await engine.dispose()
