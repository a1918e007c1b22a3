"""Documents from upload to search: read once, replaced, deleted, resumed after a crash.

Covers `app.documents.index` and `app.documents.ingestion`.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from app.documents.ingestion import Phase, Progress
from app.documents.store import DocumentStore
from app.owners import acting_as
from app.storage.tables import Document, Status
from dragon.errors import DocumentError, NotFoundError, NotYoursError
from dragon.retrieval.embedder import Embedder, Passage
from harness.adding import add
from harness.pdf import pdf
from tests.app.stores import NOTE, OTHER, files, finished, ingest, opened, reached
from tests.samples import embedder, prose


async def test_a_file_for_another_purpose_is_only_stored(store: DocumentStore) -> None:
    document = await add(store, "jobs.jsonl", NOTE, "batch")
    (end,) = await finished(store, document)
    assert (end.status, document.chunks) == (Status.PROCESSED, 0)
    assert (await store.content(document.id)).read() == NOTE
    assert await store.search("Where is the spare key?", 3, relevant=False) == []
    with pytest.raises(DocumentError, match="'batch' is not read"):
        await store.text(document.id)
    # Uploaded to be searched it is read after all.
    again = await ingest(store, "jobs.jsonl", NOTE)
    assert (again.id, again.chunks) == (document.id, 1)
    await add(store, "jobs.jsonl", NOTE, "batch")
    assert len(await store.search("Where is the spare key?", 3)) == 1


async def test_the_best_passage_comes_first_with_its_offsets(store: DocumentStore) -> None:
    text = prose(60) + "\r\n\r\n" + OTHER.decode() + "\r\n" + prose(60, "river")
    await ingest(store, "long.md", text.encode())
    await ingest(store, "key.txt", NOTE)
    hits = await store.search("What is the passcode of the router?", 5, relevant=False)
    assert len(hits) == 5
    assert "K7-QX41" in hits[0].text
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    parsed = text.replace("\r\n", "\n")
    assert all(hit.text == parsed[hit.start : hit.end] for hit in hits if hit.title == "long.md")


async def test_passages_of_a_pdf_know_their_page(store: DocumentStore) -> None:
    content = pdf("The lamp is lit at dusk.", "", NOTE.decode(), "Tea is served at four.")
    document = await ingest(store, "house rules.pdf", content)
    assert document.kind == "pdf"
    hit = (await store.search("Where is the spare key?", 1))[0]
    assert (hit.page, hit.text) == (3, NOTE.decode().strip())


async def test_lines_that_a_pdf_broke_by_width_are_joined(store: DocumentStore) -> None:
    lines = ["The ferry to Aldermoor leaves from", "the north pier at seven, except on", "Sundays."]
    await ingest(store, "ferry.pdf", pdf("\n".join(lines)))
    (hit,) = await store.search("When does the ferry leave?", 1)
    assert hit.text == " ".join(lines)


async def test_text_in_many_alphabets(store: DocumentStore) -> None:
    text = "Ключ от кладовки лежит в синей вазе, Größe: 4 m² \U0001f511"
    await ingest(store, "Schlüssel 鍵.txt", text.encode("utf-16"))
    (hit,) = await store.search("ключ", 1, relevant=False)
    assert (hit.text, hit.title) == (text, "Schlüssel 鍵.txt")


async def test_what_cannot_be_read_says_why(store: DocumentStore, tmp_path: Path) -> None:
    for name, content, message in (
        ("blank.txt", b" \n\t\r\n\f ", "no text in it"),
        ("secret.pdf", pdf("Hidden.", encrypted=True), "encrypted"),
        ("blank.pdf", pdf("", ""), "no text"),
        ("broken.pdf", b"%PDF-1.7\nnothing that follows is one", "damaged"),
        ("cut.pdf", pdf("Some words.")[:300], "damaged|no text"),
        ("note.pdf", NOTE, "named .pdf but is not a PDF. Save it as a PDF again."),
        ("binary.txt", random.Random(1).randbytes(5000), "binary data"),
        # As Tesseract is there or not.
        ("photo.txt", b"\x89PNG\r\n\x1a\n" + bytes(100), "OCR|damaged"),
        ("letter.docx", b"PK\x03\x04" + bytes(100), "This .docx file is damaged"),
        ("lost.docx", b"\x00\x01\x02" * 100, "This .docx file is damaged"),
        ("parts.zip", b"PK\x03\x04" + bytes(100), "This ZIP or Office file is damaged"),
    ):
        document = await ingest(store, name, content)
        assert (document.status, document.chunks) == (Status.ERROR, 0), name
        assert re.search(message, document.status_details or ""), name
        assert await store.search("words", 3, relevant=False) == []
        await store.delete(document.id)
        assert files(tmp_path, "files", "incoming", "index") == [], name


async def test_what_is_no_file_leaves_nothing(store: DocumentStore, tmp_path: Path) -> None:
    for name, content, message in (
        ("empty.txt", b"", "is empty"),
        ("", NOTE, "no name"),
        ("a/\x00", NOTE, "no name"),
    ):
        with pytest.raises(DocumentError, match=message) as caught:
            await add(store, name, content)
        assert caught.value.param == "file"
        assert await store.list() == []
        assert files(tmp_path, "files", "incoming") == []


async def test_the_same_bytes_and_name_are_the_same_document(store: DocumentStore) -> None:
    first, second, _ = await asyncio.gather(*(add(store, "key.txt", NOTE) for _ in range(3)))
    await finished(store, first)
    third = await add(store, "key.txt", NOTE)
    assert first.id == second.id == third.id
    assert (third.status, third.created_at) == ("processed", first.created_at)
    assert first.id.startswith("file-")
    assert len(first.id) == 29
    other_name = await ingest(store, "door.txt", NOTE)
    other_bytes = await ingest(store, "key.txt", OTHER)
    assert len({first.id, other_name.id, other_bytes.id}) == 3
    # Of two that say the same one is found, the newer.
    hits = await store.search("key", 10, relevant=False)
    assert {hit.document for hit in hits} == {other_name.id, other_bytes.id}
    assert await store.count() == 3


async def test_names_lose_their_directories(store: DocumentStore) -> None:
    for name in ("../../etc/passwd", "C:\\notes\\passwd", "/etc/passwd\n"):
        assert (await add(store, name, NOTE)).filename == "passwd"
    assert len((await add(store, "n" * 400 + ".txt", NOTE)).filename) == 255


async def test_lost_bytes_can_be_uploaded_again(store: DocumentStore, tmp_path: Path) -> None:
    document = await ingest(store, "key.txt", NOTE)
    shutil.rmtree(tmp_path / "files" / document.id)
    with pytest.raises(NotFoundError, match="upload it again"):
        await store.content(document.id)
    await ingest(store, "key.txt", NOTE)
    assert (await store.content(document.id)).read() == NOTE
    assert (await store.text(document.id))[1] == NOTE.decode()


@pytest.mark.parametrize("text_lost", [False, True])
async def test_deleted_at_the_moment_it_is_read(
    store: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text_lost: bool
) -> None:
    found = store.get

    async def found_and_deleted(identity: str) -> Document:
        monkeypatch.setattr(store, "get", found)
        document = await found(identity)
        await store.delete(identity)
        return document

    for read in (store.text, store.content):
        document = await ingest(store, "key.txt", NOTE)
        if text_lost:
            (tmp_path / "files" / document.id / "text").unlink()
        monkeypatch.setattr(store, "get", found_and_deleted)
        with pytest.raises(NotFoundError, match="There is no file"):
            await read(document.id)
    assert files(tmp_path, "files") == []


async def test_no_text_is_parsed_beside_ingestion(store: DocumentStore, tmp_path: Path) -> None:
    document = await add(store, "key.txt", NOTE)
    with pytest.raises(DocumentError, match="not read yet"):
        await store.text(document.id)
    assert (await finished(store, document))[-1].status == Status.PROCESSED
    text = tmp_path / "files" / document.id / "text"
    text.unlink()  # lost: now it is parsed by each who asks
    answers = await asyncio.gather(*(store.text(document.id) for _ in range(4)))
    assert {answer for _, answer in answers} == {NOTE.decode()}
    assert {path.name for path in text.parent.iterdir()} == {"original", "text"}


async def test_search_leaves_out_what_is_not_relevant(store: DocumentStore) -> None:
    await ingest(store, "key.txt", NOTE)
    assert await store.search("Who won the football match in Lima?", 4) == []
    assert len(await store.search("Who won the football match in Lima?", 4, relevant=False)) == 1


async def test_each_document_pays_for_its_own_pages(store: DocumentStore, tmp_path: Path) -> None:
    """The log does not grow until one of many documents writes all of it into the database."""
    before = (tmp_path / "dragon.db").stat().st_size
    await ingest(store, "stones.txt", prose(200).encode())
    assert (tmp_path / "dragon.db").stat().st_size > before + len(prose(200))
    assert (tmp_path / "dragon.db-wal").stat().st_size < len(prose(200)) / 2


async def test_every_watcher_sees_the_end(store: DocumentStore) -> None:
    document = await add(store, "long.txt", prose(150).encode())
    early = await asyncio.gather(*(finished(store, document) for _ in range(3)))
    late = await finished(store, document)
    chunks = (await store.get(document.id)).chunks
    assert late == [Progress(Phase.INDEXED, Status.PROCESSED, chunks, chunks)]
    for seen in early:
        assert seen[-1].status == Status.PROCESSED
        embedded = [each.done for each in seen if each.stage == Phase.EMBEDDED]
        assert embedded == sorted(embedded)
        assert len(embedded) > 1


class Refusing(Embedder):
    """An embedder that fails until it is told not to."""

    fails = True

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.fails:
            raise RuntimeError("a fault in the embedder")
        return super().embed(texts)


async def test_a_failed_ingestion_is_reported_and_can_be_tried_again(tmp_path: Path) -> None:
    refusing = Refusing(embedder()._model, embedder().fingerprint)
    async with opened(tmp_path, refusing) as store:
        document = await add(store, "key.txt", NOTE)
        last = (await finished(store, document))[-1]
        assert (last.stage, last.status) == (Phase.EMBEDDED, Status.ERROR)
        assert last.message is not None
        assert "a fault" not in last.message
        document = await store.get(document.id)
        assert (document.status, document.status_details) == (Status.ERROR, last.message)
        assert [each.message for each in await finished(store, document)] == [last.message]
        refusing.fails = False
        again = await ingest(store, "key.txt", NOTE)
        assert (again.id, again.status) == (document.id, Status.PROCESSED)
        assert len(await store.search("spare key", 5)) == 1


async def test_a_stored_file_that_is_gone_ends_in_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        document = await add(store, "key.txt", NOTE)
        await store.close()
    shutil.rmtree(tmp_path / "files" / document.id)
    async with opened(tmp_path) as store:
        assert (await finished(store, document))[-1].status == Status.ERROR
        with pytest.raises(NotFoundError, match="upload it again"):
            await store.content(document.id)
        await store.delete(document.id)
        assert await store.list() == []


@pytest.mark.parametrize("stage", Phase)
async def test_cancelled_and_retried(store: DocumentStore, tmp_path: Path, stage: Phase) -> None:
    document = await add(store, "stones.txt", prose(40).encode())
    await reached(store, document, stage)
    cancelled = await store.cancel(document.id)
    hits = await store.search("the stone keeper", 100, relevant=False)
    if cancelled.status == Status.PROCESSED:  # its last stages are too short to be cancelled
        assert len(hits) == cancelled.chunks == 40
    else:
        assert (cancelled.status, cancelled.chunks) == (Status.ERROR, 0)
        assert "cancelled" in (cancelled.status_details or "")
        assert (hits, files(tmp_path, "index")) == ([], [])
        assert (await store.retry(document.id)).status == Status.UPLOADED
    assert (await finished(store, document))[-1].status == Status.PROCESSED
    assert len(await store.search("the stone keeper", 100, relevant=False)) == 40


async def test_a_note_does_not_wait_behind_a_long_text(store: DocumentStore) -> None:
    long = await add(store, "stones.txt", prose(1500).encode())
    await reached(store, long, Phase.EMBEDDED)
    await ingest(store, "key.txt", NOTE)
    assert (await store.get(long.id)).status == Status.UPLOADED
    (hit, *_) = await store.search("Where is the spare key?", 3)
    assert hit.text == NOTE.decode().strip()


class Held(Embedder):
    """An embedder that makes no vectors of documents until it may."""

    def __init__(self) -> None:
        super().__init__(embedder()._model, embedder().fingerprint)
        self.may = threading.Event()

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        self.may.wait(60)
        return super().embed_passages(passages)


async def test_words_are_found_before_any_vector_is_made(tmp_path: Path) -> None:
    text = prose(60) + NOTE.decode()
    async with opened(tmp_path, model := Held()) as store:
        document = await add(store, "stones.txt", text.encode())
        await reached(store, document, Phase.EMBEDDED)
        assert (await store.get(document.id)).status == Status.UPLOADED
        assert await store.unread() == 1
        (hit, *_) = await store.search("Where is the spare key?", 3)
        assert hit.text == NOTE.decode().strip()
        assert (await store.text(document.id))[1] == text
        model.may.set()
        assert (await finished(store, document))[-1].status == Status.PROCESSED
        (again, *_) = await store.search("Where is the spare key?", 3)
        assert (again.text, again.relevance) == (hit.text, pytest.approx(hit.relevance))


async def test_the_newest_document_is_embedded_first(tmp_path: Path) -> None:
    async with opened(tmp_path, model := Held()) as store:
        first, *later = [
            await add(store, f"{seed}.txt", prose(70, seed).encode())
            for seed in ("stone", "river", "heron")
        ]
        for document in (first, *later):
            await reached(store, document, Phase.EMBEDDED)
        ended: list[str] = []

        async def end(document: Document) -> None:
            await finished(store, document)
            ended.append(document.id)

        ends = [asyncio.create_task(end(document)) for document in (first, *later)]
        model.may.set()
        await asyncio.gather(*ends)
        assert ended == [each.id for each in (*reversed(later), first)]


async def test_progress_is_told_and_leaves_the_event_loop_free(store: DocumentStore) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    ticking = asyncio.create_task(turn())
    document = await add(store, "stones.txt", prose(300).encode())
    seen = [(each, turns) async for each in await store.watch(document.id)]
    ticking.cancel()
    at = [turns for each, turns in seen if each.stage == Phase.EMBEDDED]
    assert min(later - earlier for earlier, later in pairwise(at[:-1])) > 10
    progress = [each for each, _ in seen]
    under_way = [each for each in progress if each.stage == Phase.EMBEDDED and each.percent < 100]
    assert [each.percent for each in under_way] == sorted(each.percent for each in under_way)
    assert (under_way[0].percent, under_way[0].seconds_left) == (0, None)
    assert all((each.seconds_left or 0) > 0 for each in under_way[1:])
    assert (progress[-1].percent, progress[-1].seconds_left) == (100, None)


async def test_vectors_are_of_ones_own_and_of_what_is_shared(store: DocumentStore) -> None:
    with acting_as("anna"):
        hers = await ingest(store, "key.txt", NOTE)
    await ingest(store, "router.txt", OTHER)

    async def near() -> set[str]:
        """What comes near a question that shares no word with what is said."""
        return {hit.title for hit in await store.search("opening doors", 5, relevant=False)}

    assert await near() == {"router.txt"}
    with acting_as("anna"):
        assert await near() == {"key.txt"}
        await store.share(hers.id, shared=True)
        assert await near() == {"key.txt"}
    assert await near() == {"key.txt", "router.txt"}
    with acting_as("ben"):
        assert await near() == {"key.txt"}
    with acting_as("anna"):
        await store.share(hers.id, shared=False)
    assert await near() == {"router.txt"}


async def test_a_new_version_of_what_is_shared_is_shared(store: DocumentStore) -> None:
    with acting_as("anna"):
        first = await ingest(store, "key.txt", NOTE)
        await store.share(first.id, shared=True)
        second = await add(store, "key.txt", OTHER, replace=True)
        await finished(store, second)
    assert [each.id for each in await store.list()] == [second.id]
    with pytest.raises(NotYoursError):
        await store.delete(second.id)
    (hit, *_) = await store.search("What is the router's passcode?", 1)
    assert hit.document == second.id


async def test_one_that_is_being_deleted_can_no_longer_be_shared(store: DocumentStore) -> None:
    document = await ingest(store, "key.txt", NOTE)
    deleting = asyncio.create_task(store.delete(document.id))
    with pytest.raises(NotFoundError):
        await asyncio.gather(*(store.share(document.id, shared=each) for each in (True, False)))
    await deleting
