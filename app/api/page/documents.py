"""`/api/documents`: deleting several, what answers keep of them, and redacting that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from app.container import AppState, State
from app.documents.redaction import Quoted, Redaction
from dragon.errors import NotFoundError

router = APIRouter(prefix="/api/documents", tags=["documents"])

Ids = Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=10_000)]


class Some(BaseModel):
    """Documents by their ids; those that are not there any more are left out."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    documents: Ids


class Deletion(Some):
    """With `redact` their words in stored conversations, titles and the ledger go as well."""

    redact: bool = False


@router.post("/quoted")
async def quoted(some: Some, state: State) -> dict[str, int]:
    """How many messages have words of the documents, and how many conversations."""
    found = Quoted()
    for each in await _redactions(state, some.documents):
        found |= await each.quoted()
    return {"messages": len(found.messages), "conversations": len(found.conversations)}


@router.post("/delete")
async def delete_documents(deletion: Deletion, state: State) -> dict[str, Any]:
    """Delete documents; answers that are being written from one that is redacted end."""
    deleted = []
    for document in deletion.documents:
        redactions = await _redactions(state, [document]) if deletion.redact else []
        for each in redactions:
            await each.apply()  # before its passages go, which say what was read
        with suppress(NotFoundError):
            await state.documents.delete(document)
            deleted.append(document)
        for each in redactions:
            await state.background_runs.stop_reading(document)
            await each.apply()  # what was written meanwhile
    return {"deleted": deleted}


async def _redactions(state: AppState, documents: Sequence[str]) -> list[Redaction]:
    found = []
    for document in documents:
        with suppress(NotFoundError):
            found.append(await state.documents.redaction(document))
    return found
