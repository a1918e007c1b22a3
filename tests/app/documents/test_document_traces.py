"""What deletions, stops and kills leave behind, and what a start makes of it.

Covers `app.documents.erasure` and `app.storage.purge`.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.conversations.background_run import BackgroundRuns
from app.conversations.record import Ending
from app.conversations.store import ConversationStore
from app.documents.erasure import GONE
from app.documents.ingestion import Phase
from app.documents.store import DocumentStore
from app.generation.accumulator import AnswerState, observing
from app.generation.events import (
    Event,
    Finished,
    GenerationRequest,
    Source,
    SourcesFound,
    TextDelta,
)
from app.settings import Cloud
from app.storage import database
from app.storage.tables import Document, MessageState, Status
from dragon.errors import NotFoundError
from dragon.retrieval.embedder import Embedder
from dragon.sampling.params import Sampling
from harness import warm
from harness.adding import add
from tests.app.stores import (
    NOTE,
    OTHER,
    chunk_ids,
    downgrade,
    files,
    finished,
    index_ids,
    ingest,
    opened,
    reached,
    segment_of,
    settled,
    traces,
)
from tests.samples import embedder, prose


async def test_deletion_leaves_no_trace(store: DocumentStore, tmp_path: Path) -> None:
    kept = await ingest(store, "router.txt", OTHER)
    secret = b"The walnut drawer holds Aunt Philomena's opal.\n"
    document = await ingest(store, "philomena.txt", secret * 40)
    vector = embedder().embed([(await store.search("opal", 1))[0].text])[0].tobytes()
    needles = (b"walnut", b"Philomena", b"philomena", vector, document.id.encode())
    assert len(traces(tmp_path, *needles)) >= 3, "else this test shows nothing"
    await store.delete(document.id)
    assert traces(tmp_path, *needles) == []
    assert [each.id for each in await store.list()] == [kept.id]
    assert {hit.document for hit in await store.search("opal", 5, relevant=False)} == {kept.id}
    with pytest.raises(NotFoundError):
        await store.get(document.id)


def record_of(document: Document, text: str) -> dict[str, Any]:
    """What is stored of an answer that cites a document."""
    source = {"side": "private", "id": document.id, "title": document.filename, "text": text}
    return {"sources": [source]}


async def test_deletion_takes_passages_out_of_answers(store: DocumentStore, tmp_path: Path) -> None:
    secret = "The walnut drawer holds Aunt Philomena's opal. " * 200
    document = await ingest(store, "gems.txt", secret.encode())
    conversations = ConversationStore(store._sessions, store.purge)
    _, _, answer = await conversations.ask(None, None, "Where is it?", private=True)
    passage = record_of(document, secret)["sources"][0]
    router = await ingest(store, "router.txt", OTHER)
    other = record_of(router, OTHER.decode())["sources"][0]
    record = {"sources": [passage, other], "closest": [other], "nothing_relevant": False}
    near = {"closest": [passage, other]}
    await conversations.save(answer.id, MessageState.DONE, "In a drawer.", record | near, [])
    await store.delete(document.id)
    after = await conversations.message(answer.id)
    blank = {"side": "private", "id": "", "title": GONE, "text": "", "deleted": True}
    blank |= {"page": None, "start": None, "end": None, "around": ""}
    assert (after.text, after.record) == ("In a drawer.", record | {"sources": [blank, other]})
    assert traces(tmp_path, b"walnut", b"Philomena", b"gems.txt", document.id.encode()) == []


async def test_answers_in_progress_forget_what_is_deleted(
    store: DocumentStore, tmp_path: Path
) -> None:
    secret = "The walnut drawer holds Aunt Philomena's opal."
    document = await ingest(store, "gems.txt", secret.encode())
    conversations = ConversationStore(store._sessions, store.purge)
    _, _, answer = await conversations.ask(None, None, "Where is it?", private=True)
    deleted = asyncio.Event()
    request = GenerationRequest((1,), "Where is it?", Sampling(), cloud=Cloud.NEVER)

    async def prepare() -> tuple[GenerationRequest, int]:
        return request, 0

    async def write(answer: AnswerState) -> AsyncGenerator[Event, None]:
        with observing(answer) as take:
            source = Source("private", document.id, "gems.txt", secret, 0.9, 1.0)
            yield take(SourcesFound((source,)))
            await deleted.wait()
            yield take(TextDelta("In a drawer.", (1,)))
            yield take(Finished("stop", 1, 1))

    runs = BackgroundRuns(conversations, write, "a model")
    run = runs.start(answer, prepare)
    events = run.follow()
    assert await anext(events) == []
    assert secret in str(await anext(events))
    await conversations.save(answer.id, MessageState.WRITING, "", record_of(document, secret))
    await store.delete(document.id)
    deleted.set()
    assert [type(event) async for batch in events for event in batch][-1] is Finished
    assert run.written.ending == Ending(MessageState.DONE)
    after = await conversations.message(answer.id)
    (source,) = after.record["sources"]
    assert (after.text, source["title"], source["weight"]) == ("In a drawer.", GONE, 1.0)
    needles = (b"walnut", b"Philomena", b"gems.txt", document.id.encode())
    assert traces(tmp_path, *needles) == []


async def test_deletion_in_the_middle_of_ingestion(store: DocumentStore, tmp_path: Path) -> None:
    document = await add(store, "stones.txt", prose(200).encode())
    progress = await store.watch(document.id)
    async for each in progress:
        if each.stage == Phase.EMBEDDED:
            break
    await store.delete(document.id)
    assert [each async for each in progress] == []
    assert traces(tmp_path, b"stone keeper", b"stones.txt") == []
    assert await store.search("the stone keeper", 3, relevant=False) == []
    again = await ingest(store, "stones.txt", prose(20).encode())
    assert again.status == Status.PROCESSED


async def test_deleted_while_it_waits_for_its_turn(store: DocumentStore) -> None:
    long = await add(store, "long.txt", prose(100).encode())
    waiting = await add(store, "key.txt", NOTE)
    await store.delete(waiting.id)
    assert (await finished(store, long))[-1].status == Status.PROCESSED
    assert [document.id for document in await store.list()] == [long.id]


async def restarted(tmp_path: Path) -> None:
    """A start repairs the index so that it holds just the chunks there are, findable."""
    async with opened(tmp_path) as store:
        assert "flowerpot" in (await store.search("Where is the spare key?", 1))[0].text
        assert "K7-QX41" in (await store.search("router passcode", 1))[0].text
        await settled(store)
    assert index_ids(tmp_path) == await chunk_ids(tmp_path)


@pytest.mark.parametrize("damage", ["lost", "truncated", "overwritten", "a bit", "swapped"])
async def test_damaged_vectors_are_made_again(tmp_path: Path, damage: str) -> None:
    async with opened(tmp_path) as store:
        one = segment_of(tmp_path, await ingest(store, "key.txt", NOTE))
        other = segment_of(tmp_path, await ingest(store, "router.txt", OTHER))
    data = one.read_bytes()
    if damage == "lost":
        one.unlink()
    elif damage == "truncated":
        one.write_bytes(data[: len(data) // 2])
    elif damage == "overwritten":
        one.write_bytes(random.Random(3).randbytes(9000))
    elif damage == "a bit":
        one.write_bytes(data[:-50] + bytes([data[-50] ^ 1]) + data[-49:])
    else:
        one.write_bytes(other.read_bytes())
        other.write_bytes(data)
    await restarted(tmp_path)


async def test_an_index_older_than_the_database_is_repaired(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        document = await ingest(store, "key.txt", NOTE)
        gone = await ingest(store, "gone.txt", b"Soon deleted.")
        shutil.copytree(tmp_path / "index", tmp_path / "old")
        await store.delete(gone.id)
        # The same document again, with chunks of other ids.
        await store.delete(document.id)
        await ingest(store, "key.txt", NOTE)
        await ingest(store, "router.txt", OTHER)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "old").rename(tmp_path / "index")
    await restarted(tmp_path)


async def test_vectors_of_others_are_left_alone(store: DocumentStore, tmp_path: Path) -> None:
    path = segment_of(tmp_path, await ingest(store, "key.txt", NOTE))
    before = (path.stat().st_ino, path.stat().st_mtime_ns)
    other = await ingest(store, "router.txt", OTHER)
    await store.delete(other.id)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before


async def test_another_embedder_makes_the_vectors_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        document = await ingest(store, "key.txt", NOTE)
    before = segment_of(tmp_path, document).read_bytes()
    another = Embedder(embedder()._model, "0123456789abcdef")
    for model in (another, embedder()):
        async with opened(tmp_path, model) as store:
            assert len(await store.search("spare key", 3)) == 1  # by its words, from the start
            await settled(store)
            assert len(await store.search("spare key", 3)) == 1
    assert segment_of(tmp_path, document).read_bytes() == before
    assert index_ids(tmp_path) == await chunk_ids(tmp_path)


async def test_what_the_version_before_had_begun_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await ingest(store, "key.txt", NOTE)
        cut_off = await ingest(store, "router.txt", OTHER)
    await asyncio.to_thread(downgrade, tmp_path, "0007")
    with closing(sqlite3.connect(tmp_path / database.DATABASE)) as connection, connection:
        connection.execute("DELETE FROM chunks WHERE document_id = ?", (cut_off.id,))
        connection.execute("UPDATE documents SET status = 'uploaded' WHERE id = ?", (cut_off.id,))
    async with opened(tmp_path) as store:
        await settled(store)
        assert {each.status for each in await store.list()} == {Status.PROCESSED}
    await restarted(tmp_path)


async def test_a_start_clears_what_a_kill_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        kept = await ingest(store, "key.txt", NOTE)
    (tmp_path / "incoming" / "tmpupload").write_bytes(b"half of a file")
    (tmp_path / "files" / "file-orphan").mkdir()
    (tmp_path / "files" / "file-orphan" / "original").write_bytes(b"deleted")
    (tmp_path / "files" / "file-orphan" / "deleting").touch()
    (tmp_path / "files" / ".DS_Store").write_bytes(b"a file browser's")
    (tmp_path / "index" / "tmpvectors").write_bytes(b"half of a document's vectors")
    (tmp_path / "index" / "vectors-0123.faiss").write_bytes(b"of an earlier version")
    async with opened(tmp_path):
        directory = f"files/{kept.id}"
        assert files(tmp_path, "files") == [
            "files/.DS_Store", directory, f"{directory}/original", f"{directory}/text",
        ]  # fmt: skip
        assert files(tmp_path, "incoming") == []
        assert len(files(tmp_path, "index")) == 1


async def test_a_stop_in_the_middle_of_ingestion_resumes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        document = await add(store, "stones.txt", prose(150).encode())
        await reached(store, document, Phase.EMBEDDED)
    async with opened(tmp_path) as store:
        assert (await store.get(document.id)).status == Status.UPLOADED
        assert (await finished(store, document))[-1].status == Status.PROCESSED
    assert index_ids(tmp_path) == await chunk_ids(tmp_path)


@pytest.mark.parametrize("moment", [*Phase, "vectors written", "found", "half embedded"])
async def test_a_kill_at_any_moment_resumes(tmp_path: Path, moment: str) -> None:
    data_dir, file = tmp_path / "data", tmp_path / "stones.txt"
    data_dir.mkdir()
    text = prose(60)
    file.write_text(text)
    arguments = (str(data_dir), str(file), moment)
    process = warm.start(
        "tests.app.documents.ingest_process", arguments, os.environ, tmp_path / "log"
    )
    await asyncio.to_thread(process.join)
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    async with opened(data_dir) as store:
        (document,) = await store.list()
        progress = await finished(store, document)
        assert progress[-1].status == Status.PROCESSED
        hits = await store.search("the stone keeper on day 3", 1000, relevant=False)
        spans = sorted((hit.start, hit.end) for hit in hits)
        assert len(spans) == progress[-1].total
        assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(
            text.split()
        )
    assert index_ids(data_dir) == await chunk_ids(data_dir)
    directory = f"files/{document.id}"
    assert files(data_dir, "files")[1:] == [f"{directory}/original", f"{directory}/text"]
