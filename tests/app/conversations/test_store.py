"""Projects: collections with an instruction and conversations, and what their answers read.

And turns that are deleted while somebody asks on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from app.api.page.parameters import Params, branch_request
from app.container import AppState
from app.conversations.store import ConversationStore
from app.documents.store import DocumentStore
from app.generation.events import GenerationRequest
from app.storage.database import Sessions
from app.storage.tables import MessageState
from dragon.errors import NotFoundError
from tests.app.stores import ingest, traces
from tests.fakes import FakeGeneration


async def listed(client: httpx.AsyncClient) -> list[tuple[str, str, int, int]]:
    reply = await client.get("/api/projects")
    return [tuple(project.values()) for project in reply.json()["data"]]


async def asked(state: AppState, question: str, project: str | None) -> GenerationRequest:
    conversations = state.conversations
    _, _, answer = await conversations.ask(None, None, question, private=False, project=project)
    path = await conversations.path(answer.id)
    request, _ = await branch_request(state, path, "", Params(), project)
    return request


async def test_a_collection_is_a_project(client: httpx.AsyncClient, real: AppState) -> None:
    assert await listed(client) == []
    await ingest(real.documents, "boiler.txt", b"The boiler is in the cellar.", "House")
    assert await listed(client) == [("House", "", 1, 0)]
    for name, instruction in (
        ("House", "Answer briefly."),
        (" garden ", ""),
        ("House", "In verse."),
    ):
        body = {"name": name, "instruction": instruction}
        assert (await client.put("/api/projects", json=body)).json() == {"name": name.strip()}
    await asked(real, "Where is the boiler?", "House")
    assert await listed(client) == [("garden", "", 0, 0), ("House", "In verse.", 1, 1)]


async def test_its_documents_and_its_instruction_are_read(
    client: httpx.AsyncClient, real: AppState, generation: FakeGeneration
) -> None:
    await ingest(real.documents, "boiler.txt", b"The boiler is in the cellar.", "House")
    await client.put("/api/projects", json={"name": "House", "instruction": "Answer in verse."})
    await client.put("/api/projects", json={"name": "Garden"})
    house = await asked(real, "Where is the boiler?", "House")
    assert (house.documents, house.collections) == (None, ("House",))
    assert "verse" not in generation.tokenizer.decode(house.conversation), "a model that quotes"
    generation.quotes = False
    house = await asked(real, "Where is the boiler?", "House")
    assert "Answer in verse." in generation.tokenizer.decode(house.conversation)
    garden = await asked(real, "Where is the hose?", "Garden")
    assert (garden.documents, garden.collections) == ((), None), "it has no documents yet"
    none = await asked(real, "Where is the hose?", None)
    assert (none.documents, none.collections) == (None, None)


async def test_a_project_ends_once_it_has_no_documents(
    client: httpx.AsyncClient, real: AppState
) -> None:
    document = await ingest(real.documents, "boiler.txt", b"The boiler is here.", "House")
    await asked(real, "Where is the boiler?", "House")
    await client.put("/api/projects", json={"name": "House", "instruction": "In verse."})
    refused = await client.delete("/api/projects", params={"name": "House"})
    assert refused.status_code == 400
    assert "has documents" in refused.json()["error"]["message"]
    assert await listed(client) == [("House", "In verse.", 1, 1)]
    await real.documents.delete(document.id)
    assert (await client.delete("/api/projects", params={"name": "House"})).status_code == 200
    assert await listed(client) == []
    ((kept, _),) = await real.conversations.list("", 5)
    assert kept.project is None


async def test_what_no_collection_may_be_called_no_project_is(
    client: httpx.AsyncClient, real: AppState
) -> None:
    for name in ("", " ", "x" * 65, "a\x07b"):
        assert (await client.put("/api/projects", json={"name": name})).status_code == 400, name


async def test_a_conversation_is_private_as_it_began_until_that_is_changed(
    client: httpx.AsyncClient, real: AppState
) -> None:
    """A question that is asked openly all the same leaves it private."""
    kept, _, answer = await real.conversations.ask(None, None, "one", private=True)
    address = f"/api/conversations/{kept.id}"
    await real.conversations.ask(kept.id, answer.id, "two", private=False)
    assert (await client.get(address)).json()["private"] is True
    assert (await client.patch(address, json={"private": False})).json()["private"] is False
    assert (await client.get(address)).json()["private"] is False
    openly, _, _ = await real.conversations.ask(None, None, "three", private=False)
    assert (await client.get(f"/api/conversations/{openly.id}")).json()["private"] is False


async def test_conversations_are_pinned_archived_and_put_into_a_project(
    client: httpx.AsyncClient, real: AppState
) -> None:
    async def titles(**params: str | bool) -> list[str]:
        reply = await client.get("/api/conversations", params=params)
        return [each["title"] for each in reply.json()["data"]]

    ids = {}
    for title in ("one", "two", "three"):
        conversation, _, _ = await real.conversations.ask(None, None, title, private=True)
        ids[title] = f"/api/conversations/{conversation.id}"
    assert await titles() == ["three", "two", "one"]
    pinned = await client.patch(ids["one"], json={"pinned": True})
    assert (pinned.json()["pinned"], pinned.json()["archived"]) == (True, False)
    assert await titles() == ["one", "three", "two"]
    assert await titles(limit="1") == ["one", "three"], "those pinned come all"
    archived = (await client.patch(ids["one"], json={"archived": True})).json()
    assert (archived["pinned"], archived["archived"]) == (False, True)
    assert await titles() == ["three", "two"]
    assert await titles(archived=True) == ["one"]
    assert await titles(search="one") == ["one"]
    await client.patch(ids["two"], json={"project": "House"})
    assert await titles(project="House") == ["two"]
    await client.patch(ids["two"], json={"project": ""})
    assert await titles(project="House") == []


async def test_the_ledgers_of_a_turn_are_those_of_its_answer_and_of_what_follows(
    sessions: Sessions, store: DocumentStore
) -> None:
    conversations = ConversationStore(sessions, store.purge)
    chat, _, first = await conversations.ask(None, None, "Where is the key?", private=True)
    _, _, second = await conversations.ask(chat.id, first.id, "And the lamp?", private=True)
    _, _, other = await conversations.ask(chat.id, first.id, "And the tent?", private=True)
    _, _, third = await conversations.ask(chat.id, second.id, "And the oil?", private=True)
    for message, ledger in ((first, "a"), (second, "b"), (other, "c"), (third, "d")):
        await conversations.save(message.id, MessageState.DONE, "Here.", {"ledgers": [ledger]})
    assert await conversations.ledgers(chat.id) == {"a", "b", "c", "d"}
    assert await conversations.ledgers(chat.id, second.id) == {"b", "d"}
    await conversations.delete_turn(second.id)
    with pytest.raises(NotFoundError):
        await conversations.ledgers(chat.id, second.id)


async def test_what_is_asked_after_a_turn_that_is_being_deleted_goes_with_it(
    sessions: Sessions, store: DocumentStore, tmp_path: Path
) -> None:
    conversations = ConversationStore(sessions, store.purge)
    chat, _, first = await conversations.ask(None, None, "Where is the key?", private=True)
    _, _, second = await conversations.ask(chat.id, first.id, "And the lamp?", private=True)
    for asked_first in (True, False):
        asking = conversations.ask(chat.id, second.id, "Is the walnut locked?", private=True)
        deleting = conversations.delete_turn(second.id)
        both = (asking, deleting) if asked_first else (deleting, asking)
        told = await asyncio.gather(*both, return_exceptions=True)
        assert all(isinstance(each, NotFoundError | tuple | None) for each in told)
        assert traces(tmp_path, b"walnut", b"Walnut") == []
        with pytest.raises(NotFoundError):
            await conversations.path(second.id)
        with pytest.raises(NotFoundError):
            await conversations.delete_turn(second.id)
        _, _, second = await conversations.ask(chat.id, first.id, "And the lamp?", private=True)
