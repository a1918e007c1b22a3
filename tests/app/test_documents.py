from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from app import database, uploads
from app.documents import DocumentStore
from app.ingestion import Progress, Stage
from app.models import Chunk, Document, Status
from dragon.errors import DocumentError, DocumentTooLargeError, NotFoundError
from dragon.retrieval.chunking import Offsets
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import VectorIndex
from dragon.tokenizer import Tokenizer
from tests.samples import embedder, pdf, prose

NOTE = b"The spare key hangs under the third flowerpot on the balcony.\n"
OTHER = b"The router's passcode is K7-QX41; it sits behind the bookshelf.\n"


@asynccontextmanager
async def opened(
    data_dir: Path, tokenizer: Offsets, model: Embedder | None = None
) -> AsyncIterator[DocumentStore]:
    """A running store; everything of it is closed at the end, as when the service stops."""
    url = database.database_url(data_dir)
    await asyncio.to_thread(database.migrate, url)
    engine = database.connect(url)
    store = DocumentStore(data_dir, database.session_maker(engine), model or embedder(), tokenizer)
    await store.start()
    yield store
    await store.close()
    await engine.dispose()


@pytest.fixture
async def store(tmp_path: Path, tokenizer: Tokenizer) -> AsyncIterator[DocumentStore]:
    async with opened(tmp_path, tokenizer) as store:
        yield store


async def finished(store: DocumentStore, document: Document) -> list[Progress]:
    return [progress async for progress in await store.watch(document.id)]


async def ingest(store: DocumentStore, name: str, content: bytes) -> Document:
    document = await store.add(name, content)
    await finished(store, document)
    return await store.get(document.id)


def files(data_dir: Path, *directories: str) -> list[str]:
    within = [path for directory in directories for path in (data_dir / directory).rglob("*")]
    return sorted(str(path.relative_to(data_dir)) for path in within)


def traces(data_dir: Path, *needles: bytes) -> list[str]:
    """Files that contain one of the needles, in their name or their bytes."""
    found = []
    for path in data_dir.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if any(needle in content or needle in path.name.encode() for needle in needles):
            found.append(str(path.relative_to(data_dir)))
    return found


async def chunk_ids(data_dir: Path) -> list[int]:
    engine = database.connect(database.database_url(data_dir))
    async with database.session_maker(engine)() as session:
        ids = list(await session.scalars(select(Chunk.id).order_by(Chunk.id)))
    await engine.dispose()
    return ids


def index_file(data_dir: Path) -> Path:
    return next((data_dir / "index").glob("*.faiss"))


def index_ids(data_dir: Path) -> list[int]:
    return sorted(VectorIndex.load(index_file(data_dir), embedder().dim).ids)


# Adding and finding


async def test_a_note_is_ingested_stage_by_stage_and_found(store: DocumentStore) -> None:
    document = await store.add("key.txt", NOTE)
    assert (document.status, document.kind, document.bytes) == ("uploaded", "text", len(NOTE))
    progress = await finished(store, document)
    assert [each.stage for each in progress] == list(Stage)
    assert [each.status for each in progress] == ["uploaded"] * 4 + ["processed"]
    assert (progress[-1].done, progress[-1].total) == (1, 1)
    assert (await store.get(document.id)).status == Status.PROCESSED
    (hit,) = await store.search("Where is the spare key?", 3)
    assert (hit.document, hit.title, hit.page) == (document.id, "key.txt", None)
    assert hit.text == NOTE.decode().strip() == NOTE.decode()[hit.start : hit.end]
    assert hit.score > 0.5
    assert hit.relevance > 10


async def test_the_best_passage_comes_first_with_its_offsets(store: DocumentStore) -> None:
    text = prose(60) + "\r\n\r\n" + OTHER.decode() + "\r\n" + prose(60, "river")
    await ingest(store, "long.md", text.encode())
    await ingest(store, "key.txt", NOTE)
    hits = await store.search("What is the passcode of the router?", 5)
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
    (hit,) = await store.search("ferry", 1)
    assert hit.text == " ".join(lines)


async def test_the_bytes_decide_the_kind_and_not_the_name(store: DocumentStore) -> None:
    assert (await store.add("really.txt", pdf("Some words."))).kind == "pdf"
    assert (await store.add("notes.MD", NOTE)).kind == "markdown"
    assert (await store.add("noname", NOTE)).kind == "text"
    with pytest.raises(DocumentError, match="named .pdf but is not a PDF"):
        await store.add("note.pdf", NOTE)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
async def test_text_encodings(store: DocumentStore, encoding: str) -> None:
    text = "Ключ от кладовки лежит в синей вазе. Größe: 4 m² \U0001f511"
    await ingest(store, "Schlüssel 鍵.txt", text.encode(encoding))
    (hit,) = await store.search("ключ", 1)
    assert (hit.text, hit.title) == (text, "Schlüssel 鍵.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", "is empty"),
        ("blank.txt", b" \n\t\r\n\f ", "no text in it"),
        ("secret.pdf", pdf("Hidden.", encrypted=True), "encrypted"),
        ("scan.pdf", pdf("", ""), "OCR"),
        ("broken.pdf", b"%PDF-1.7\nnothing that follows is one", "damaged"),
        ("cut.pdf", pdf("Some words.")[:300], "damaged|no text"),
        ("binary.txt", random.Random(1).randbytes(5000), "not text in UTF-8|binary"),
        ("nul.txt", b"some text\x00and more", "binary data"),
        ("controls.md", b"some text \x01\x02", "binary data"),
        ("latin.txt", "Größe".encode("latin-1"), "Save it as UTF-8"),
        ("photo.txt", b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
        ("letter.docx", b"PK\x03\x04" + bytes(100), "a ZIP or Office file"),
        ("odd.txt", "ab".encode("utf-16")[:-1], "not text"),
        ("", NOTE, "has no name"),
        ("a/\x00", NOTE, "has no name"),
    ],
)
async def test_what_cannot_be_taken_is_refused_and_leaves_nothing(
    store: DocumentStore, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        await store.add(name, content)
    assert caught.value.param == "file"
    assert await store.list() == []
    assert files(tmp_path, "files", "incoming") == []


async def test_over_the_size_limit(store: DocumentStore, tmp_path: Path) -> None:
    with pytest.raises(DocumentTooLargeError, match="50 MB"):
        await store.add("large.txt", b"a" * (uploads.MAX_BYTES + 1))
    assert files(tmp_path, "files", "incoming") == []


async def test_the_same_bytes_under_the_same_name_are_the_same_document(
    store: DocumentStore,
) -> None:
    first, second, _ = await asyncio.gather(*(store.add("key.txt", NOTE) for _ in range(3)))
    await finished(store, first)
    third = await store.add("key.txt", NOTE)
    assert first.id == second.id == third.id
    assert (third.status, third.created_at) == ("processed", first.created_at)
    assert first.id.startswith("file-")
    assert len(first.id) == 29
    other_name = await ingest(store, "door.txt", NOTE)
    other_bytes = await ingest(store, "key.txt", OTHER)
    assert len({first.id, other_name.id, other_bytes.id}) == 3
    assert len(await store.search("key", 10)) == await store.count() == 3


async def test_names_lose_their_directories(store: DocumentStore) -> None:
    for name in ("../../etc/passwd", "C:\\notes\\passwd", "/etc/passwd\n"):
        assert (await store.add(name, NOTE)).filename == "passwd"
    assert len((await store.add("n" * 400 + ".txt", NOTE)).filename) == 255


async def test_list_get_and_content(store: DocumentStore) -> None:
    first, second = await ingest(store, "a.txt", NOTE), await ingest(store, "b.txt", OTHER)
    assert {document.id for document in await store.list()} == {first.id, second.id}
    assert (await store.content(first.id)).read_bytes() == NOTE
    for call in (store.get, store.content, store.watch, store.delete):
        with pytest.raises(NotFoundError, match="'file-none'"):
            await call("file-none")


async def test_search_without_documents(store: DocumentStore) -> None:
    assert await store.search("anything", 4) == []


async def test_every_watcher_sees_the_end(store: DocumentStore) -> None:
    document = await store.add("long.txt", prose(150).encode())
    early = await asyncio.gather(*(finished(store, document) for _ in range(3)))
    late = await finished(store, document)
    assert late == [Progress(Stage.INDEXED, Status.PROCESSED)]
    for seen in early:
        assert seen[-1].status == Status.PROCESSED
        embedded = [each.done for each in seen if each.stage == Stage.EMBEDDED]
        assert embedded == sorted(embedded)
        assert len(embedded) > 1


async def test_the_event_loop_stays_free_during_ingestion(store: DocumentStore) -> None:
    document = await store.add("long.txt", prose(600).encode())
    watching = asyncio.create_task(finished(store, document))
    longest, last = 0.0, time.monotonic()
    while not watching.done():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert longest < 0.5


# What is wrong with one document


class Refusing:
    """A tokenizer that fails until it is told not to."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.fails = True

    def offsets(self, text: str) -> list[tuple[int, int]]:
        if self.fails:
            raise RuntimeError("a fault in the tokenizer")
        return self.tokenizer.offsets(text)


async def test_a_failed_ingestion_is_reported_and_can_be_tried_again(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    refusing = Refusing(tokenizer)
    async with opened(tmp_path, refusing) as store:
        document = await store.add("key.txt", NOTE)
        last = (await finished(store, document))[-1]
        assert (last.stage, last.status) == (Stage.PARSED, Status.ERROR)
        assert last.message is not None
        assert "a fault" not in last.message
        document = await store.get(document.id)
        assert (document.status, document.status_details) == (Status.ERROR, last.message)
        assert [each.message for each in await finished(store, document)] == [last.message]
        refusing.fails = False
        assert (await ingest(store, "key.txt", NOTE)).status == Status.PROCESSED
        assert len(await store.search("key", 5)) == 1


async def test_a_stored_file_that_is_gone_ends_in_an_error(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    async with opened(tmp_path, tokenizer) as store:
        document = await store.add("key.txt", NOTE)
        await store.close()
    shutil.rmtree(tmp_path / "files" / document.id)
    async with opened(tmp_path, tokenizer) as store:
        assert (await finished(store, document))[-1].status == Status.ERROR
        with pytest.raises(NotFoundError, match="upload it again"):
            await store.content(document.id)
        await store.delete(document.id)
        assert await store.list() == []


# Deleting


async def test_deletion_leaves_no_trace(store: DocumentStore, tmp_path: Path) -> None:
    kept = await ingest(store, "router.txt", OTHER)
    secret = b"The walnut drawer holds Aunt Philomena's opal.\n"
    document = await ingest(store, "philomena.txt", secret * 40)
    vector = embedder().embed([(await store.search("opal", 1))[0].text])[0].tobytes()
    needles = (b"walnut drawer", b"Philomena", b"philomena", vector, document.id.encode())
    assert len(traces(tmp_path, *needles)) >= 3, "else this test shows nothing"
    await store.delete(document.id)
    assert traces(tmp_path, *needles) == []
    assert [each.id for each in await store.list()] == [kept.id]
    assert {hit.document for hit in await store.search("opal", 5)} == {kept.id}
    with pytest.raises(NotFoundError):
        await store.get(document.id)


async def test_deletion_in_the_middle_of_ingestion(store: DocumentStore, tmp_path: Path) -> None:
    document = await store.add("stones.txt", prose(400).encode())
    progress = await store.watch(document.id)
    async for each in progress:
        if each.stage == Stage.EMBEDDED:
            break
    await store.delete(document.id)
    assert [each async for each in progress] == []
    assert traces(tmp_path, b"stone keeper", b"stones.txt") == []
    assert await store.search("the stone keeper", 3) == []
    again = await ingest(store, "stones.txt", prose(20).encode())
    assert again.status == Status.PROCESSED


async def test_deleted_while_it_waits_for_its_turn(store: DocumentStore) -> None:
    long = await store.add("long.txt", prose(300).encode())
    waiting = await store.add("key.txt", NOTE)
    await store.delete(waiting.id)
    assert (await finished(store, long))[-1].status == Status.PROCESSED
    assert [document.id for document in await store.list()] == [long.id]


# Starting again


async def restarted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """A start repairs the index so that it holds just the chunks there are, findable."""
    async with opened(tmp_path, tokenizer) as store:
        assert "flowerpot" in (await store.search("Where is the spare key?", 1))[0].text
        assert "K7-QX41" in (await store.search("router passcode", 1))[0].text
    assert index_ids(tmp_path) == await chunk_ids(tmp_path)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(9000))


@pytest.mark.parametrize("damage", [Path.unlink, truncate, overwrite])
async def test_the_index_is_rebuilt_when_its_file_is_gone_or_damaged(
    tmp_path: Path, tokenizer: Tokenizer, damage: Callable[[Path], None]
) -> None:
    async with opened(tmp_path, tokenizer) as store:
        await ingest(store, "key.txt", NOTE)
        await ingest(store, "router.txt", OTHER)
    damage(index_file(tmp_path))
    await restarted(tmp_path, tokenizer)


async def test_a_stale_index_is_repaired(tmp_path: Path, tokenizer: Tokenizer) -> None:
    async with opened(tmp_path, tokenizer) as store:
        await ingest(store, "key.txt", NOTE)
        gone = await ingest(store, "gone.txt", b"Soon deleted.")
        old = index_file(tmp_path).read_bytes()
        await ingest(store, "router.txt", OTHER)
        await store.delete(gone.id)
    index_file(tmp_path).write_bytes(old)  # lacks one chunk and has one too many
    await restarted(tmp_path, tokenizer)


async def test_another_embedder_gets_an_index_of_its_own(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    async with opened(tmp_path, tokenizer) as store:
        await ingest(store, "key.txt", NOTE)
    before = index_file(tmp_path)
    another = Embedder(embedder()._model, "0123456789abcdef")
    async with opened(tmp_path, tokenizer, another) as store:
        assert len(await store.search("key", 3)) == 1
    assert [path.name for path in (tmp_path / "index").iterdir()] == [
        "vectors-0123456789abcdef.faiss"
    ]
    assert before.name != "vectors-0123456789abcdef.faiss"


async def test_a_start_clears_what_a_kill_left(tmp_path: Path, tokenizer: Tokenizer) -> None:
    async with opened(tmp_path, tokenizer) as store:
        kept = await ingest(store, "key.txt", NOTE)
    (tmp_path / "incoming" / "tmpupload").write_bytes(b"half of a file")
    (tmp_path / "files" / "file-orphan").mkdir()
    (tmp_path / "files" / "file-orphan" / "original").write_bytes(b"without a row")
    (tmp_path / "index" / f"{index_file(tmp_path).name}.tmp").write_bytes(b"half of an index")
    async with opened(tmp_path, tokenizer):
        assert files(tmp_path, "files") == [f"files/{kept.id}", f"files/{kept.id}/original"]
        assert files(tmp_path, "incoming") == []
        assert len(files(tmp_path, "index")) == 1


async def test_a_stop_in_the_middle_of_ingestion_resumes(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    async with opened(tmp_path, tokenizer) as store:
        document = await store.add("stones.txt", prose(300).encode())
        async for each in await store.watch(document.id):
            if each.stage == Stage.EMBEDDED:
                break
    async with opened(tmp_path, tokenizer) as store:
        assert (await store.get(document.id)).status == Status.UPLOADED
        assert (await finished(store, document))[-1].status == Status.PROCESSED
    assert index_ids(tmp_path) == await chunk_ids(tmp_path)


async def test_a_kill_in_the_middle_of_ingestion_resumes(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    data_dir, file = tmp_path / "data", tmp_path / "stones.txt"
    data_dir.mkdir()
    text = prose(500)
    file.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.app.ingest_process", str(data_dir), str(file)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async for line in process.stdout:
        stage, done, total = line.split()
        if stage == b"embedded":
            break
    assert 0 < int(done) < int(total)
    process.kill()
    await process.wait()
    async with opened(data_dir, tokenizer) as store:
        (document,) = await store.list()
        assert document.status == Status.UPLOADED
        progress = await finished(store, document)
        assert [progress[0].stage, progress[-1].status] == [Stage.STORED, Status.PROCESSED]
        hits = await store.search("the stone keeper on day 3", 1000)
        spans = sorted((hit.start, hit.end) for hit in hits)
        assert len(spans) == progress[-1].total
        assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(
            text.split()
        )
    assert index_ids(data_dir) == await chunk_ids(data_dir)
    assert files(data_dir, "files")[1:] == [f"files/{document.id}/original"]
