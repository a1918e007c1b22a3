"""Vector stores by the stock client, over real documents.

Covers `app.api.openai.paging` and `app.api.openai.vector_stores`.
"""

from __future__ import annotations

import random
from typing import Any

import openai
import pytest

from tests.app.conftest import KEY
from tests.app.stores import NOTE, OTHER
from tests.fakes import FakeGeneration

ASK = "Where is the spare key?"


@pytest.fixture
def client(library: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{library}/v1", api_key=KEY, max_retries=0)


def upload(client: openai.OpenAI, name: str, content: bytes, **more: Any) -> str:
    return client.files.create(file=(name, content), purpose="assistants", **more).id


def texts(client: openai.OpenAI, store: str, query: Any = ASK) -> list[str]:
    found = client.vector_stores.search(store, query=query, max_num_results=2)
    return [passage.content[0].text for passage in found]


def test_a_store_from_its_beginning_to_its_end(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    assert (store.name, store.status, store.file_counts.total) == ("home", "completed", 0)
    assert texts(client, store.id) == []
    added = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("note.txt", NOTE)
    )
    assert (added.status, added.usage_bytes, added.last_error) == ("completed", len(NOTE), None)
    other = upload(client, "other.txt", OTHER)
    kept = client.vector_stores.files.create_and_poll(other, vector_store_id=store.id)
    assert kept.vector_store_id == store.id
    store = client.vector_stores.retrieve(store.id)
    assert (store.file_counts.completed, store.usage_bytes) == (2, len(NOTE) + len(OTHER))
    found = client.vector_stores.search(store.id, query=ASK, max_num_results=1).data[0]
    assert (found.file_id, found.filename) == (added.id, "note.txt")
    assert found.content[0].text == NOTE.decode().strip()
    assert len(texts(client, store.id, [ASK, "What is the passcode?"])) == 2
    listed = list(client.vector_stores.files.list(store.id, limit=1))  # over two pages
    assert {file.id for file in listed} == {added.id, other}
    assert [file.id for file in client.vector_stores.files.list(store.id, filter="failed")] == []

    client.vector_stores.files.delete(other, vector_store_id=store.id)
    assert texts(client, store.id) == [NOTE.decode().strip()]
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.retrieve(other, vector_store_id=store.id)
    assert client.vector_stores.delete(store.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.retrieve(store.id)
    # The files themselves stay.
    assert {file.id for file in client.files.list()} == {added.id, other}


def test_a_store_is_a_collection(client: openai.OpenAI, generation: FakeGeneration) -> None:
    note = upload(client, "note.txt", NOTE, extra_body={"collection": "hut"})
    (store,) = client.vector_stores.list()
    assert (store.name, store.file_counts.total) == ("hut", 1)
    assert [file.id for file in client.vector_stores.files.list(store.id)] == [note]
    made = client.vector_stores.create(file_ids=[upload(client, "other.txt", OTHER)])
    assert {each.id for each in client.vector_stores.list()} == {store.id, made.id}
    for named in (store.id, "hut"):
        tool: Any = {"type": "file_search", "vector_store_ids": [named, made.id]}
        client.responses.create(model="dragon-7m", input=ASK, tools=[tool], store=False)
        assert generation.requests[-1].collections == ("hut", made.name)


def test_the_same_file_again_is_the_same_file(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    note = upload(client, "note.txt", NOTE)
    for _ in range(2):
        assert client.vector_stores.files.create(store.id, file_id=note).id == note
        assert upload(client, "note.txt", NOTE) == note
        assert upload(client, "note.txt", NOTE, extra_body={"collection": "home"}) == note
    assert client.vector_stores.retrieve(store.id).file_counts.total == 1


def test_a_file_that_cannot_be_read(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    added = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("a.txt", random.Random(1).randbytes(5000))
    )
    assert added.status == "failed"
    assert added.last_error.message
    assert client.vector_stores.retrieve(store.id).file_counts.failed == 1


def test_what_cannot_be_is_refused_by_name(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    note = upload(client, "note.txt", NOTE, extra_body={"collection": "hut"})
    jobs = client.files.create(file=("jobs.jsonl", b"{}\n"), purpose="batch").id
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("", {"name": "home"}, "name"),
        ("", {"name": " "}, "name"),
        ("", {"name": "new", "file_ids": ["file-nothing"]}, "file_ids"),
        ("", {"name": "new", "metadata": {"a": "b"}}, "metadata"),
        (f"/{store.id}/files", {"file_id": note}, "file_id"),
        (f"/{store.id}/files", {"file_id": jobs}, "file_id"),
        (f"/{store.id}/search", {"query": ""}, "query[0]"),
        (f"/{store.id}/search", {"query": "a", "filters": {"type": "eq"}}, "filters"),
    ]
    for path, body, param in refused:
        with pytest.raises(openai.BadRequestError) as caught:
            client.post(f"/vector_stores{path}", body=body, cast_to=object)
        assert caught.value.param == param
    assert {each.name for each in client.vector_stores.list()} == {"home", "hut"}


def test_a_batch_of_files(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    ids = [upload(client, "note.txt", NOTE), upload(client, "other.txt", OTHER)]
    batch = client.vector_stores.file_batches.create_and_poll(store.id, file_ids=ids)
    assert (batch.status, batch.file_counts.completed) == ("completed", 2)
    again = client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
    assert again == batch
    files = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)
    assert {file.id for file in files} == set(ids)
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.file_batches.retrieve("vsfb", vector_store_id=store.id)


def test_a_batch_over_both_lists_is_of_at_most_100_files(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="home")
    listed = {
        "file_ids": [f"file-{number}" for number in range(60)],
        "files": [{"file_id": f"file-{number}"} for number in range(59, 101)],
    }
    with pytest.raises(openai.BadRequestError, match="at most 100 files") as caught:
        client.post(f"/vector_stores/{store.id}/file_batches", body=listed, cast_to=object)
    assert caught.value.param == "file_ids"
