"""`/v1/responses` by the stock client: whole, streamed, stored, followed up and deleted.

Covers `app.api.responses.bodies` and `app.api.responses.render`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import openai
import pytest

from app.generation.events import Details
from app.settings import Settings
from app.storage.database import DATABASE
from dragon.errors import OverloadedError
from tests.app.conftest import HEADERS, wait_until
from tests.app.stores import known, migrated
from tests.fakes import SOURCE, FakeGeneration

MODEL = "dragon-7m"
ASK = "Where is the key?"
TEXT = "The key is under the mat."
SEARCH: list[Any] = [{"type": "file_search", "vector_store_ids": []}]


@pytest.fixture
def client(settings: Settings, stock: openai.OpenAI) -> openai.OpenAI:
    migrated(settings.data_dir)
    return stock


@pytest.fixture
def document(client: openai.OpenAI, settings: Settings) -> None:
    """What the fake finds is a document that there is, as the client's database knows."""
    known(settings.data_dir, SOURCE.id, SOURCE.title)


def listed(client: openai.OpenAI) -> list[dict[str, Any]]:
    """The page's conversations."""
    url = str(client.base_url).replace("/v1/", "/api/conversations")
    reply = httpx.get(url, headers=HEADERS, timeout=60)
    found: list[dict[str, Any]] = reply.json()["data"]
    return found


def test_a_whole_response(client: openai.OpenAI, generation: FakeGeneration) -> None:
    reply = client.responses.create(
        model=MODEL, input=ASK, instructions="Be brief.", max_output_tokens=50, metadata={"a": "b"}
    )
    assert (reply.output_text, reply.status, reply.error) == (TEXT, "completed", None)
    assert (reply.instructions, reply.metadata, reply.temperature) == ("Be brief.", {"a": "b"}, 0)
    (message,) = reply.output
    assert message.id.removeprefix("msg_") == reply.id.removeprefix("resp_")
    (cited,) = message.content[0].annotations
    assert (cited.type, cited.filename, cited.file_id) == ("file_citation", "note.txt", "file-1")
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
    (request,) = generation.requests
    assert (request.query, request.max_tokens) == (ASK, 50)


@pytest.mark.usefixtures("document")
def test_the_events_of_a_stream_are_in_openais_order(client: openai.OpenAI) -> None:
    with client.responses.create(
        model=MODEL, input=ASK, tools=SEARCH, include=["file_search_call.results"], stream=True
    ) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    assert deltas > 1
    assert kinds == [
        "created", "in_progress", "output_item.added", "file_search_call.in_progress",
        "file_search_call.searching", "file_search_call.completed", "output_item.done",
        "output_item.added", "content_part.added", *["output_text.delta"] * deltas,
        "output_text.annotation.added", "output_text.done", "content_part.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == TEXT
    call, message = events[-1].response.output
    assert (call.queries, call.status) == ([ASK], "completed")
    assert [result.text for result in call.results] == [SOURCE.text]
    assert message.content[0].text == TEXT
    assert client.responses.retrieve(events[0].response.id) == events[-1].response


def test_a_response_follows_another(client: openai.OpenAI, generation: FakeGeneration) -> None:
    first = client.responses.create(
        model=MODEL,
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Good morning"},
            {"role": "user", "content": [{"type": "input_text", "text": ASK}]},
        ],
    )
    second = client.responses.create(model=MODEL, input="Why?", previous_response_id=first.id)
    third = client.responses.create(
        model=MODEL, input=[*second.output, {"role": "user", "content": "And then?"}]
    )
    shown = [generation.tokenizer.decode(list(r.conversation)) for r in generation.requests]
    assert "Be brief." in shown[0]
    assert "Be brief." not in shown[1]
    order = [shown[1].index(each) for each in ("Hello", "Good morning", ASK, TEXT, "Why?")]
    assert order == sorted(order)
    assert TEXT in shown[2]
    assert second.previous_response_id == first.id
    assert third.previous_response_id is None


def test_an_answer_that_the_page_went_on_with_is_still_followed(
    client: openai.OpenAI, generation: FakeGeneration, settings: Settings
) -> None:
    first = client.responses.create(model=MODEL, input=ASK)
    second = client.responses.create(model=MODEL, input="Why?", previous_response_id=first.id)
    with closing(sqlite3.connect(settings.data_dir / DATABASE)) as database, database:
        row = first.id.replace("resp_", "msg-")
        database.execute("UPDATE messages SET record = '{}' WHERE id = ?", [row])
    client.responses.create(model=MODEL, input="So?", previous_response_id=second.id)
    said = [message.content for message in generation.requests[-1].messages]
    assert said == [ASK, TEXT, "Why?", TEXT, "So?"]


def test_stored_ones_are_conversations_and_others_are_nowhere(client: openai.OpenAI) -> None:
    kept = client.responses.create(model=MODEL, input=ASK)
    client.responses.create(model=MODEL, input="Again", previous_response_id=kept.id)
    assert [each["title"] for each in listed(client)] == [ASK]
    gone = client.responses.create(model=MODEL, input=ASK, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(gone.id)
    assert len(listed(client)) == 1


def test_a_deletion_takes_what_follows_along(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input=ASK)
    second = client.responses.create(model=MODEL, input="Why?", previous_response_id=first.id)
    third = client.responses.create(model=MODEL, input="So?", previous_response_id=second.id)
    client.responses.delete(second.id)
    for each in (second, third):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(each.id)
    assert client.responses.retrieve(first.id).output_text == TEXT
    client.responses.delete(first.id)
    assert listed(client) == []


@pytest.mark.usefixtures("document")
def test_an_end_at_the_limit_is_incomplete(client: openai.OpenAI) -> None:
    reply = client.responses.create(model=MODEL, input=ASK, max_output_tokens=2)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert client.responses.retrieve(reply.id) == reply


def test_logprobs(client: openai.OpenAI, generation: FakeGeneration) -> None:
    wanted: list[Any] = ["message.output_text.logprobs"]
    reply = client.responses.create(model=MODEL, input=ASK, include=wanted, top_logprobs=2)
    scored = reply.output[0].content[0].logprobs
    assert "".join(each.token for each in scored) == TEXT
    assert generation.requests[0].details == Details(top=2)


def test_a_search_in_an_empty_store_is_in_no_document(
    client: openai.OpenAI, generation: FakeGeneration
) -> None:
    store = client.vector_stores.create(name="work")
    tool = {"type": "file_search", "vector_store_ids": [store.id], "max_num_results": 3}
    own = {"dragon": {"private": True}}
    reply = client.responses.create(model=MODEL, input=ASK, tools=[tool], extra_body=own)
    assert reply.output[0].results is None
    (request,) = generation.requests
    assert (request.documents, request.top_k, request.private) == ((), 3, True)


def test_a_failure_in_a_stream_is_its_last_event_and_kept(
    client: openai.OpenAI, generation: FakeGeneration
) -> None:
    generation.fail_after = 3
    events = list(client.responses.create(model=MODEL, input=ASK, stream=True))
    assert events[-1].type == "response.failed"
    assert "secret" not in events[-1].response.error.message
    kept = client.responses.retrieve(events[0].response.id)
    assert (kept.status, kept.error.code) == ("failed", "server_error")


def test_a_client_that_leaves_ends_the_answer(
    client: openai.OpenAI, generation: FakeGeneration
) -> None:
    generation.delay = 0.2
    stream = client.responses.create(model=MODEL, input=ASK, stream=True)
    created = next(iter(stream))

    def status() -> str:
        return str(client.responses.retrieve(created.response.id).status)

    assert status() == "in_progress"
    stream.close()
    wait_until(lambda: status() == "cancelled")
    assert generation.active == 0


def test_nothing_is_kept_of_what_is_refused(
    client: openai.OpenAI, generation: FakeGeneration
) -> None:
    generation.refuse = OverloadedError("too many")
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model=MODEL, input=ASK)
    assert listed(client) == []


REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({"tools": [{"type": "web_search"}]}, "tools[0]"),
    ({"tools": [*SEARCH, *SEARCH]}, "tools"),
    ({"tools": [{"type": "function", "name": "now"}]}, "tools"),
    ({"tools": [{**SEARCH[0], "vector_store_ids": ["vs_nothing"]}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "messages"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"type": {}, "text": "x"}]}]}, "input[0].content"),
    ({"input": []}, "input"),
    ({"input": [{"type": "file_search_call", "id": "fs_1"}]}, "input"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"background": True}, "background"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"previous_response_id": "resp_nothing"}, None),
]


def test_what_is_not_honoured_is_refused(client: openai.OpenAI) -> None:
    for more, param in REFUSED:
        body = {"model": MODEL, "input": ASK, **more}
        with pytest.raises(openai.APIStatusError) as caught:
            client.post("/responses", body=body, cast_to=object)
        assert caught.value.status_code == (404 if param is None else 400)
        assert caught.value.param == param, more


def test_what_was_found_in_a_deleted_document_is_shown_no_more(client: openai.OpenAI) -> None:
    # The fake's document is not in the database: it was deleted while the answer was written.
    reply = client.responses.create(
        model=MODEL, input=ASK, tools=SEARCH, include=["file_search_call.results"]
    )
    assert reply.output[0].results
    kept = client.responses.retrieve(reply.id)
    assert (kept.output[0].results, kept.output[1].content[0].annotations) == ([], [])


def test_what_a_response_was_asked(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input=ASK)
    (item,) = client.responses.input_items.list(first.id).data
    assert (item.role, item.content[0].text) == ("user", ASK)
    turns: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": ASK}]
    second = client.responses.create(model=MODEL, input=turns, previous_response_id=first.id)
    items = client.responses.input_items.list(second.id, order="asc").data
    assert [item.content[0].text for item in items] == ["Be brief.", ASK]
    with pytest.raises(openai.NotFoundError):
        client.responses.input_items.list("resp_nothing")
