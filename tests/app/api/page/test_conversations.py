"""Conversations over HTTP and the socket, as the page uses them.

Covers `app.conversations.background_run` and `app.conversations.store`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.page.socket import frames
from app.container import AppState
from app.generation.events import GenerationRequest
from app.storage.database import DATABASE
from app.storage.tables import MessageState
from dragon.errors import OverloadedError
from tests.app.api.page.conftest import Page, opened
from tests.app.conftest import started, wait_until
from tests.app.stores import known, migrated, traces
from tests.fakes import SOURCE, FakeGeneration


def html(frames: list[dict[str, Any]]) -> str:
    return "".join(f["html"] for f in frames if f["type"] == "block" and not f["open"])


def test_a_question_begins_a_conversation(page: Page, generation: FakeGeneration) -> None:
    generation.script = "The **key** is here.\n\n- under\n- the mat\n"
    page.send("say", text="Where is the key?\nI lost it.")
    began = page.until("began")[-1]
    frames = page.until("done")
    assert "<strong>key</strong>" in html(frames)
    assert frames[-1]["finish_reason"] == "stop"
    (listed,) = page.get()["data"]
    assert listed["title"] == "Where is the key?"
    whole = page.get(listed["id"])
    question, answer = whole["messages"]
    assert whole["leaf"] == answer["id"] == began["answer"]["id"]
    assert (question["role"], answer["parent"]) == ("user", question["id"])
    assert answer["text"] == generation.script
    assert "".join(block["html"] for block in answer["blocks"]) == html(frames)
    assert answer["sources"][0]["title"] == "note.txt"
    assert answer["done"]["usage"]["completion_tokens"] > 3
    assert answer["state"] == MessageState.DONE


def test_another_passage_is_asked_for_on_the_device(page: Page, generation: FakeGeneration) -> None:
    began = page.say("Where is the key?")
    page.send("again", message=began["question"]["id"], other=True)
    page.until("done")
    usual, other = generation.requests
    assert (usual.cloud, usual.judged, usual.passed_over) == ("when_needed", True, ())
    assert (other.cloud, other.judged) == ("never", False)
    assert set(other.passed_over) == {generation.script, ""}, "its own text so far is empty"


def test_the_branch_is_what_the_model_reads(page: Page, generation: FakeGeneration) -> None:
    first = page.say("First question?")
    conversation, answer = first["conversation"]["id"], first["answer"]["id"]
    second = page.say("Second question?", conversation=conversation, parent=answer)
    other = page.say("Another second?", conversation=conversation, parent=answer)
    page.send("again", message=second["question"]["id"])
    page.until("done")
    read = [generation.tokenizer.decode(r.conversation) for r in generation.requests]
    assert "First question?" in read[1]
    assert generation.script in read[1]
    assert read[3] == read[1]
    assert "Second question?" not in read[2]
    messages = page.messages(conversation)
    answers = [m for m in messages.values() if m["parent"] == second["question"]["id"]]
    assert len(answers) == 2
    assert page.get(conversation)["leaf"] == answers[1]["id"]
    reply = page.call("PATCH", conversation, json={"leaf": other["answer"]["id"]})
    assert reply.json()["leaf"] == other["answer"]["id"]
    exported = page.call("GET", f"{conversation}/export", params={"as": "markdown"})
    assert "Another second?" in exported.text
    assert "Second question?" not in exported.text
    assert "note.txt, page 2 (private)" in exported.text
    assert "attachment" in exported.headers["content-disposition"]
    whole = page.call("GET", f"{conversation}/export", params={"as": "json"}).json()
    assert len(whole["messages"]) == 7


def test_a_private_turn_stays_out_of_open_ones(page: Page, generation: FakeGeneration) -> None:
    private = page.say("My secret is walnut.", params={"private": True})
    at = {"conversation": private["conversation"]["id"], "parent": private["answer"]["id"]}
    page.say("And now?", **at)
    page.say("And now?", **at, params={"private": True})
    page.send("again", message=private["question"]["id"])
    page.until("done")
    opened, kept, again = generation.requests[1:]
    assert "walnut" not in generation.tokenizer.decode(opened.conversation)
    assert "walnut" in generation.tokenizer.decode(kept.conversation)
    assert (opened.private, kept.private, again.private) == (False, True, True)


def test_an_answer_goes_on_without_its_page(
    page: Page, address: str, generation: FakeGeneration
) -> None:
    generation.script, generation.delay = "word " * 120, 0.02
    page.send("say", text="Tell me everything.")
    answer = page.until("began")[-1]["answer"]["id"]
    page.until("block")
    page.socket.close()
    with opened(address) as again:
        (listed,) = again.get()["data"]
        assert again.messages(listed["id"])[answer]["state"] == MessageState.WRITING
        again.send("watch", id=answer)
        frames = again.until("done")
        assert frames[-1]["finish_reason"] == "stop"
        assert html(frames).count("word") == 120
        assert generation.cancelled == 0
        wait_until(lambda: again.messages(listed["id"])[answer]["state"] == MessageState.DONE)
        again.send("watch", id=answer)
        assert again.until("message")[-1]["message"]["text"] == generation.script


def test_stop_then_continue_openly_and_privately(page: Page, generation: FakeGeneration) -> None:
    generation.script, generation.delay = "one two three four five six. " * 20, 0.02
    page.send("say", text="Count.")
    began = page.until("began")[-1]
    conversation, answer = began["conversation"]["id"], began["answer"]["id"]
    page.until("block")
    page.send("stop", id=answer)
    assert page.until("done")[-1]["finish_reason"] == "cancelled"
    assert generation.cancelled == 1
    wait_until(lambda: page.messages(conversation)[answer]["state"] == MessageState.STOPPED)
    stopped = page.messages(conversation)[answer]["text"]
    assert stopped.startswith("one")
    generation.script, generation.delay = "The end.", 0.0
    for private in (False, True, True):
        page.send("continue", message=answer, params={"private": private})
        assert "The end." in html(page.until("done"))
    asked, continued = generation.requests[:2]
    assert continued.conversation[: len(asked.conversation)] == asked.conversation
    assert [request.private for request in generation.requests] == [False, False, True, True]
    whole = stopped + 3 * "The end."
    wait_until(lambda: page.messages(conversation)[answer]["text"] == whole)
    message = page.messages(conversation)[answer]
    assert (message["private"], message["private_from"]) == (True, len(stopped + "The end."))
    assert len(message["ledgers"]) == 4
    exported = page.call("GET", f"{conversation}/export", params={"as": "markdown"}).text
    assert "## Answer (begun openly, then kept on this device)" in exported
    kept = page.say("And now?", params={"private": True})["conversation"]["id"]
    exported = page.call("GET", f"{kept}/export", params={"as": "markdown"}).text
    assert exported.count("(kept on this device)") == 2


def test_search_rename_delete(page: Page, generation: FakeGeneration, tmp_path: Path) -> None:
    generation.script = "Philomena keeps the opal in the walnut drawer."
    first = page.say("Who keeps the stone?")["conversation"]["id"]
    generation.script = "Bread needs flour."
    second = page.say("How is bread made?")["conversation"]["id"]

    def found(search: str) -> list[str]:
        return [each["id"] for each in page.get(search=search)["data"]]

    wait_until(lambda: found("philo") == [first])
    assert found("WALNUT opal") == [first]
    assert found("stone") == [first]
    assert found("flour") == [second]
    assert found("nothing of it") == []
    assert found("'\"*") == [second, first]
    assert "walnut" in page.get(search="opal")["data"][0]["found"]
    assert page.call("PATCH", first, json={"title": " Gems\n"}).json()["title"] == "Gems"
    assert found("gems") == [first]
    assert page.call("PATCH", first, json={"title": "  "}).status_code == 400
    needles = (b"Philomena", b"philomena", b"walnut", first.encode())
    assert traces(tmp_path, *needles), "else this test shows nothing"
    assert page.call("DELETE", first).json() == {"id": first, "deleted": True}
    assert found("walnut") == []
    assert traces(tmp_path, *needles) == []
    assert page.call("GET", first).status_code == 404
    assert page.call("DELETE", first).status_code == 404


async def test_pages_skip_and_repeat_nothing(
    page: Page, state: AppState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven conversations, five of them of one second, two at a time."""
    ids = []
    for second in (100, 200, 200, 200, 200, 200, 300):
        monkeypatch.setattr(time, "time", lambda now=second: now)
        conversation, _, _ = await state.conversations.ask(None, None, "Where?", private=False)
        ids.append(conversation.id)
    monkeypatch.undo()
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        listed = page.get(limit=2, **cursor)
        seen += [each["id"] for each in listed["data"]]
        if not listed["has_more"]:
            break
        last = listed["data"][-1]
        cursor = {"before": last["updated_at"], "after": last["id"]}
    assert seen == ids[::-1]
    await state.conversations.delete(ids[4])
    rest = page.get(before=200, after=ids[4])["data"]
    assert {each["id"] for each in rest} >= set(ids[:4])


def test_deleting_stops_the_answer(page: Page, generation: FakeGeneration) -> None:
    generation.script, generation.delay = "word " * 500, 0.02
    page.send("say", text="Tell me everything.")
    conversation = page.until("began")[-1]["conversation"]["id"]
    page.until("block")
    page.call("DELETE", conversation)
    assert page.until("done")[-1]["finish_reason"] == "cancelled"
    wait_until(lambda: generation.active == 0)
    assert page.get()["data"] == []


def test_what_goes_wrong_is_kept_with_the_question(page: Page, generation: FakeGeneration) -> None:
    page.send("say", text="word " * 400)
    began = page.until("began")[-1]
    error = page.until("error")[-1]
    assert error["id"] == began["answer"]["id"]
    assert error["error"]["code"] == "context_length_exceeded"
    conversation = began["conversation"]["id"]
    answer = began["answer"]["id"]
    wait_until(lambda: page.messages(conversation)[answer]["state"] == MessageState.ERROR)
    assert page.messages(conversation)[answer]["error"]["message"]


def test_a_long_conversation_leaves_its_beginning_out(
    page: Page, generation: FakeGeneration
) -> None:
    parent: dict[str, Any] = {}
    for number in range(6):
        began = page.say(f"Question number {number}: " + "why " * 20, **parent)
        parent = {"conversation": began["conversation"]["id"], "parent": began["answer"]["id"]}
    last = generation.tokenizer.decode(generation.requests[-1].conversation)
    assert "number 5" in last
    assert "number 4" in last
    assert "number 0" not in last
    record = page.messages(parent["conversation"])[parent["parent"]]
    assert record["asked"]["left_out"] > 0


def test_frames_about_what_is_not_there(page: Page) -> None:
    for kind, frame in (
        ("say", {"text": "x", "conversation": "conv-none"}),
        ("again", {"message": "msg-none"}),
        ("continue", {"message": "msg-none"}),
        ("watch", {"id": "msg-none"}),
    ):
        page.send(kind, **frame)
        assert page.until("error")[-1]["error"]["param"] is None


def test_an_answer_that_cannot_begin_is_not_left_as_being_written(
    page: Page, state: AppState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(_identity: str) -> None:
        raise OverloadedError("busy")

    with monkeypatch.context() as patched:
        patched.setattr(state.conversations, "path", busy)
        page.send("say", text="Where?")
        page.until("error")
    (listed,) = page.get()["data"]
    answer = page.get(listed["id"])["messages"][1]
    assert answer["state"] == MessageState.STOPPED
    page.send("continue", message=answer["id"])
    assert page.until("done", "error")[-1]["type"] == "done"


async def test_a_start_ends_what_a_kill_cut_off(state: AppState, tmp_path: Path) -> None:
    migrated(tmp_path)
    _, _, answer = await state.conversations.ask(None, None, "Where?", private=False)
    await state.conversations.save(answer.id, MessageState.WRITING, "Under the", {}, [])
    await state.conversations.start()
    after = await state.conversations.message(answer.id)
    assert (after.state, after.text) == (MessageState.STOPPED, "Under the")


async def test_a_stop_at_once_ends_the_answer(
    state: AppState, generation: FakeGeneration, tmp_path: Path
) -> None:
    """Before it has taken its first step: who reads hears of the end, and it is stored."""
    migrated(tmp_path)
    store = state.conversations
    _, _, answer = await store.ask(None, None, "Where?", private=False)

    async def prepare() -> tuple[GenerationRequest, int]:
        raise AssertionError("it was stopped before")

    async with asyncio.timeout(60):
        run = state.background_runs.start(answer, prepare)
        run.stop()
        run.stop()
        sent = [frame async for frame in frames(run)]
    assert [frame["type"] for frame in sent] == ["done"]
    assert sent[-1]["finish_reason"] == "cancelled"
    assert (await store.message(answer.id)).state == MessageState.STOPPED


async def test_a_stop_while_the_end_is_stored_changes_nothing(
    state: AppState, generation: FakeGeneration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated(tmp_path)
    store, save, saving = state.conversations, state.conversations.save, asyncio.Event()
    _, _, answer = await store.ask(None, None, "Where?", private=False)

    async def slow(*values: Any) -> None:
        saving.set()
        await asyncio.sleep(0.05)
        await save(*values)

    monkeypatch.setattr(store, "save", slow)
    async with asyncio.timeout(10):
        run = await started(state, answer)
        await saving.wait()
        run.stop()
        await state.background_runs.close()
        sent = [frame async for frame in frames(run)]
    assert sent[-1]["finish_reason"] == "stop"
    after = await store.message(answer.id)
    assert (after.state, after.text) == (MessageState.DONE, generation.script)


async def test_an_answer_of_an_earlier_release_is_shown(
    client: httpx.AsyncClient, state: AppState, tmp_path: Path
) -> None:
    """A row as it has always been stored, in every part that the page reads."""
    known(tmp_path, SOURCE.id, SOURCE.title)
    source = {
        "side": "private", "id": SOURCE.id, "title": "note.txt", "text": "Under the mat.",
        "score": 0.8, "weight": 1.0, "page": 2, "start": 0, "end": 25,
    }  # fmt: skip
    asked = {"mode": "oneway", "cloud": "when_needed", "temperature": 0.15, "seed": 4}
    asked |= {"left_out": 0, "documents": None}
    stats = {"participation": [[0, 3]], "verdicts": "===", "trace": [], "asked": asked}
    record = {
        "seams": [[9, False, "the peer does not answer"]],
        "ledgers": ["answer-1"],
        "asked": asked,
        "sources": [source],
        "nothing_relevant": False,
        "unread_documents": 1,
        "done": {
            "finish_reason": "stop",
            "ledger": "answer-1",
            "usage": {"prompt_tokens": 75, "completion_tokens": 5},
            "dragon": stats,
            "ledgers": ["answer-1"],
        },
    }
    token = {
        "position": 0, "text": "Under", "start": 0, "end": 5,
        "cloud": 0.75, "documents": [0.25], "tv": 0.125,
    }  # fmt: skip
    store, text = state.conversations, "Under the **mat**.\n\n- here\n"
    conversation, _, answer = await store.ask(None, None, "Where?", private=False)
    row = json.dumps(record), json.dumps([token]), text, answer.id
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute(
            "UPDATE messages SET record=?, tokens=?, text=?, state='done' WHERE id=?", row
        )
    path = f"/api/conversations/{conversation.id}"
    shown = (await client.get(path)).json()["messages"][1]
    assert {name: shown[name] for name in record} == record
    assert "".join(block["html"] for block in shown["blocks"]) == (
        '<p>Under the<span class="seam" role="note" data-testid="seam" data-joint="false">'
        "From here on the device writes alone.</span> <strong>mat</strong>.</p>\n"
        "<ul>\n<li>here</li>\n</ul>\n"
    )
    assert (await client.get(f"{path}/messages/{answer.id}/tokens")).json() == {"tokens": [token]}

    run = await started(state, await store.reopen(answer.id, private=False), provenance=True)
    sent = [frame async for frame in frames(run)]
    after = await store.message(answer.id)
    assert (sent[-1]["type"], after.text[: len(text)]) == ("done", text)
    assert after.tokens[0] == token
    assert after.tokens[1]["start"] == len(text)
    assert after.record["seams"][0] == record["seams"][0]
    assert after.record["ledgers"][0] == "answer-1"
