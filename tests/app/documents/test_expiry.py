"""Documents that were to be kept for a while are deleted then, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.documents.store import DocumentStore
from dragon.errors import NotFoundError
from harness.adding import add
from tests.app.stores import NOTE, OTHER, files, finished, opened


async def gone(store: DocumentStore, identity: str) -> None:
    """Wait until a document is deleted."""
    async with asyncio.timeout(30):
        while True:
            try:
                await store.get(identity)
            except NotFoundError:
                return
            await asyncio.sleep(0.02)


async def test_a_document_is_deleted_in_its_time(store: DocumentStore, tmp_path: Path) -> None:
    brief = await add(store, "key.txt", NOTE, expires_after=1)
    later = await add(store, "code.txt", OTHER, expires_after=3600)
    await finished(store, later)
    await gone(store, brief.id)
    await store.settled()
    assert [each.id for each in await store.list()] == [later.id]
    assert all(later.id in str(path) for path in files(tmp_path, "files"))
    found = await store.search("Where is the spare key?", 3, relevant=False)
    assert {hit.document for hit in found} <= {later.id}


async def test_the_last_upload_says_how_long_it_is_kept(store: DocumentStore) -> None:
    first = await add(store, "key.txt", NOTE, expires_after=3600)
    assert (await add(store, "key.txt", NOTE)).id == first.id
    other = await add(store, "code.txt", OTHER)
    assert (await add(store, "code.txt", OTHER, expires_after=1)).expires_at is not None
    await gone(store, other.id)
    assert (await store.get(first.id)).expires_at is None


async def test_what_expires_while_the_device_is_off_goes_at_its_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        document = await add(store, "key.txt", NOTE, expires_after=1)
    async with opened(tmp_path) as store:
        await gone(store, document.id)


async def test_one_that_is_being_deleted_at_the_end_is_deleted_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    delete = DocumentStore.delete
    deleted: list[str] = []

    async def slowly(self: DocumentStore, document: str) -> None:
        begun.set()
        await go_on.wait()
        await delete(self, document)
        deleted.append(document)

    monkeypatch.setattr(DocumentStore, "delete", slowly)
    async with opened(tmp_path) as store:
        document = await add(store, "key.txt", NOTE, expires_after=1)
        async with asyncio.timeout(30):
            await begun.wait()
        asyncio.get_running_loop().call_later(0.1, go_on.set)
    assert deleted == [document.id]


async def test_after_an_unexpected_error_documents_still_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = asyncio.Event()
    delete = DocumentStore.delete

    async def at_second(self: DocumentStore, document: str) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a fault of the program")
        await delete(self, document)

    monkeypatch.setattr(DocumentStore, "delete", at_second)
    async with opened(tmp_path) as store:
        first = await add(store, "key.txt", NOTE, expires_after=1)
        async with asyncio.timeout(30):
            await failed.wait()
        second = await add(store, "code.txt", OTHER, expires_after=1)
        await gone(store, first.id)
        await gone(store, second.id)
