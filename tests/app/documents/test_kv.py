"""Document KV of the device: just what answers ask for, and no trace of it after a deletion."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.documents.kv import DocumentKV
from app.documents.progress import Stage
from app.documents.store import DocumentStore
from dragon.inference.backends.torch.kv_store import KVStore
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.prompt_rows import document_rows
from tests import tiny
from tests.app.stores import NOTE, OTHER, finished, ingest, opened, traces
from tests.samples import prose

ROOMY = 1 << 30


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tiny.save(tmp_path_factory.mktemp("model"))
    running = Engine(LanguageModel.load(path, tiny.VOCABULARY))
    yield running
    running.stop()


class Device:
    """A document store that computes KV, and the means to look into it."""

    def __init__(self, data_dir: Path, engine: Engine, tokenizer: Tokenizer, limit: int) -> None:
        self.directory = data_dir / "kv"
        self.store = KVStore(self.directory, engine.model.fingerprint, limit)
        self.kv = DocumentKV(engine, tokenizer, self.store)
        self.documents: DocumentStore

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}


@asynccontextmanager
async def running(
    data_dir: Path, engine: Engine, tokenizer: Tokenizer, limit: int = ROOMY
) -> AsyncIterator[Device]:
    device = Device(data_dir, engine, tokenizer, limit)
    async with opened(data_dir, tokenizer, kv=device.kv) as device.documents:
        yield device


async def test_what_is_computed_is_what_answers_ask_for(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer) as device:
        await ingest(device.documents, "notes.txt", NOTE + OTHER)
        hits = await device.documents.search("Where is the spare key?", 5, relevant=False)
        rows, kept = document_rows(tokenizer, hits, engine.model.context, raw=False, quotes=False)
        assert len(kept) == len(device.files()) == 2
        assert all(row in device.store for row in rows)


async def test_deletion_leaves_no_kv(tmp_path: Path, engine: Engine, tokenizer: Tokenizer) -> None:
    async with running(tmp_path, engine, tokenizer) as device:
        kept = await ingest(device.documents, "kept.txt", NOTE)
        before = device.files()
        # Another document that holds the same text, and more.
        gone = await ingest(device.documents, "gone.txt", NOTE + OTHER)
        needles = [(device.directory / name).read_bytes()[-64:] for name in device.files() - before]
        names = [name.encode() for name in device.files() - before]
        assert len(names) == 2
        await device.documents.delete(gone.id)
        assert device.files() == before
        assert traces(tmp_path, *names) == []
        only_gone = [needle for needle in needles if not _in_any(device, needle)]
        assert len(only_gone) == 1
        assert traces(tmp_path, *only_gone) == []
        # An answer that found the document just before keeps nothing of it, either.
        (hit,) = await device.documents.search("spare key", 1)
        assert hit.document == kept.id


def _in_any(device: Device, needle: bytes) -> bool:
    return any(needle in (device.directory / name).read_bytes() for name in device.files())


async def test_deletion_while_kv_is_computed(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer) as device:
        document = await device.documents.add("stones.txt", prose(60).encode())
        async for each in await device.documents.watch(document.id):
            if each.stage == Stage.CACHED:
                break
        await device.documents.delete(document.id)
        await engine_idle(engine)
        assert device.files() == set()
        await ingest(device.documents, "stones.txt", prose(20).encode())
        assert len(device.files()) > 0


async def engine_idle(engine: Engine) -> None:
    await asyncio.wrap_future(engine.submit_urgent(lambda: None))


async def test_an_answer_under_way_keeps_nothing_of_a_deleted_document(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer, limit=ROOMY) as device:
        document = await ingest(device.documents, "key.txt", NOTE)
        hits = await device.documents.search("spare key", 1)
        rows, _ = document_rows(tokenizer, hits, engine.model.context, raw=True, quotes=False)
        await device.documents.delete(document.id)
        engine.store = device.store
        decoder = engine.open(rows, tokenizer.encode("Where is it?"))
        await asyncio.wrap_future(decoder.prefilled)
        engine.close(decoder)
        engine.store = None
        assert device.files() == set()


async def test_a_start_removes_kv_of_documents_that_are_gone(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer) as device:
        await ingest(device.documents, "key.txt", NOTE)
        before = device.files()
        texts = ["A kill came before its files were removed."]
        await device.kv.fill("file-gone", texts, lambda _: None)
        assert len(device.files()) == len(before) + 1
    async with running(tmp_path, engine, tokenizer) as device:
        assert device.files() == before
    async with running(tmp_path, engine, tokenizer, limit=0) as device:
        assert device.files() == set()


async def test_documents_beyond_the_cap_push_nothing_out(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    async with running(tmp_path, engine, tokenizer, limit=100_000) as device:
        await ingest(device.documents, "key.txt", NOTE)
        first = device.files()
        await ingest(device.documents, "stones.txt", prose(80).encode())
        assert first < device.files()
        assert sum(path.stat().st_size for path in device.directory.iterdir()) <= 100_000


async def test_an_answer_goes_before_document_kv(
    tmp_path: Path, engine: Engine, tokenizer: Tokenizer
) -> None:
    layers = engine.model.layers
    held, leave = threading.Event(), threading.Event()
    lengths: list[int] = []

    def hold(*_: object) -> None:
        held.set()
        leave.wait(60)

    hooks = [
        # It comes before the model's own, which looks whether the step is still wanted.
        layers[1].register_forward_pre_hook(hold, prepend=True),
        layers[1].register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1])),
    ]
    async with running(tmp_path, engine, tokenizer) as device:
        document = await device.documents.add("key.txt", NOTE)
        await asyncio.to_thread(held.wait, 60)
        decoder = engine.open([Row((5, 6), 0.0)], [7, 8, 9])
        leave.set()
        await asyncio.wrap_future(decoder.prefilled)
        engine.close(decoder)  # else the document would take its time
        await finished(device.documents, document)
        assert len(device.files()) == 1
    for hook in hooks:
        hook.remove()
    # The answer's rows went through the layer before the document did.
    assert lengths[:2] == [2, 3]
    assert len(lengths) == 3
