"""Adds files to a store of documents as an upload does."""

from __future__ import annotations

from typing import Any

from app.documents.store import DocumentStore
from app.storage.tables import Document


async def add(
    store: DocumentStore, name: str, content: bytes, *given: str, **options: Any
) -> Document:
    """Receive a file and add it; further arguments are those of `DocumentStore.add`."""
    async with store.receive() as incoming:
        await incoming.write(content)
        await incoming.close()
        return await store.add(name, incoming, *given, **options)
