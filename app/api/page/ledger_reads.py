"""`/api/ledger/reads`: what programs were given of the person's documents."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.container import State
from app.ledger.reads import reads

router = APIRouter(prefix="/api/ledger/reads", tags=["ledger"])


class PassageRead(BaseModel):
    """A part of a document's text, in characters."""

    document: str
    start: int
    end: int


class ReadEntry(BaseModel):
    """Something given to a program, when in Unix seconds; `reader` is what it calls itself.

    `bytes` is the size of it all; `passages` are null where a document of theirs was deleted since.
    `answer` is the answer it was given, if it was one, by its id in the ledger.
    """

    id: str
    at: float
    reader: str
    tool: str
    answer: str | None
    bytes: int
    passages: list[PassageRead] | None


class ReadList(BaseModel):
    """Reads, newest first."""

    object: Literal["list"] = "list"
    data: list[ReadEntry]


@router.get("")
async def list_reads(
    state: State,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: str | None = None,
) -> ReadList:
    """What was given to programs, newest first, from the one behind `before` on."""
    found = await reads(state.ledger.sessions, limit, before)
    return ReadList(data=[ReadEntry.model_validate(row, from_attributes=True) for row in found])
