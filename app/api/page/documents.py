"""`/api/documents`: what answers keep of a document, and its deletion from them, too."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from app.api.openai.openapi import failures
from app.container import State

router = APIRouter(prefix="/api/documents", tags=["documents"])


@router.get("/{document}/quoted", responses=failures(404))
async def quoted(document: str, state: State) -> dict[str, Any]:
    """How many messages and titles, of how many conversations, have words of the document."""
    return asdict(await (await state.documents.redaction(document)).count())


@router.delete("/{document}", responses=failures(404))
async def delete_document(document: str, state: State, redact: bool = False) -> dict[str, Any]:
    """Delete a document; with `redact` its words in stored conversations, too.

    Answers that are being written from it end.
    """
    redaction = await state.documents.redaction(document) if redact else None
    if redaction is not None:
        await redaction.apply()  # before its passages go, which say what was read
    await state.documents.delete(document)
    if redaction is not None:
        await state.background_runs.stop_reading(document)
        await redaction.apply()  # what was written meanwhile
    return {"id": document, "deleted": True}
