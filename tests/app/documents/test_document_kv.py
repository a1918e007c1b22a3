"""Document KV of the device: kept once it is used, and no trace of it after a deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.documents.store import DocumentStore
from app.storage.tables import Document
from dragon.inference.engine import Engine
from dragon.inference.kv_store import KVStore
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.prompt_rows import document_rows
from tests import tiny
from tests.app.stores import NOTE, OTHER, ingest, opened

ROOMY = 1 << 30


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with tiny.engine(tmp_path_factory.mktemp("model")) as running:
        yield running


class Device:
    """A document store with KV, and answers that use it."""

    documents: DocumentStore

    def __init__(self, data_dir: Path, engine: Engine, tokenizer: Tokenizer, limit: int) -> None:
        self.directory = data_dir / "kv"
        self.store = KVStore(self.directory, engine.model, limit)
        self.engine = engine
        self.tokenizer = tokenizer

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    async def rows(self, question: str) -> list[Row]:
        hits = await self.documents.search(question, 1, relevant=False)
        context = self.engine.model.context
        return list(document_rows(self.tokenizer, hits, context, raw=False, quotes=False)[0])

    async def answer(self, rows: list[Row]) -> None:
        self.engine.store = self.store
        decoder = self.engine.open(rows, self.tokenizer.encode("Where is it?"))
        await asyncio.wrap_future(decoder.prefilled)
        self.engine.close(decoder)
        self.engine.store = None


@asynccontextmanager
async def running(
    data_dir: Path, engine: Engine, tokenizer: Tokenizer, limit: int = ROOMY
) -> AsyncIterator[Device]:
    device = Device(data_dir, engine, tokenizer, limit)
    async with opened(data_dir, kv=device.store) as device.documents:
        yield device


async def used(device: Device, name: str, content: bytes, question: str) -> Document:
    document = await ingest(device.documents, name, content)
    await device.answer(await device.rows(question))
    return document


@pytest.fixture
async def device(tmp_path: Path, engine: Engine, tokenizer: Tokenizer) -> AsyncIterator[Device]:
    async with running(tmp_path, engine, tokenizer) as device:
        yield device


async def test_a_used_passage_is_kept(device: Device) -> None:
    await ingest(device.documents, "notes.txt", NOTE + OTHER)
    assert device.files() == set()
    rows = await device.rows("Where is the spare key?")
    await device.answer(rows)
    assert len(device.files()) == 1
    assert all(device.store.load(row) is not None for row in rows)


async def test_deletion_leaves_no_kv(device: Device) -> None:
    await used(device, "kept.txt", NOTE, "Where is the spare key?")
    before = device.files()
    gone = await used(device, "gone.txt", OTHER, "What is the passcode of the router?")
    assert before < device.files()
    await device.documents.delete(gone.id)
    assert device.files() == before


async def test_an_answer_under_way_keeps_nothing_of_a_deleted_document(device: Device) -> None:
    document = await ingest(device.documents, "key.txt", NOTE)
    rows = await device.rows("Where is the spare key?")
    await device.documents.delete(document.id)
    await device.answer(rows)
    assert device.files() == set()


async def test_a_start_removes_kv_of_documents_that_are_gone(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer) as device:
        await used(device, "key.txt", NOTE, "Where is the spare key?")
        before = device.files()
        device.store.admit("file-gone")  # a kill came before its files were removed
        (row,) = await device.rows("Where is the spare key?")
        await device.answer([Row(row.tokens, 0.0, document="file-gone")])
        assert len(device.files()) == len(before) + 1
    async with running(tmp_path, engine, tokenizer) as device:
        assert device.files() == before
    async with running(tmp_path, engine, tokenizer, limit=0) as device:
        assert device.files() == set()
