"""`/api/ledger/reads`: what programs were given of the user's documents."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.container import State
from app.ledger.reads import reads

router = APIRouter(prefix="/api/ledger/reads", tags=["ledger"])


class PassageRead(BaseModel):
    """A part of a document's text, by character offsets."""

    document: str
    start: int
    end: int


class ReadEntry(BaseModel):
    """Something given to a program, when in Unix seconds; `reader` is the program's own name.

    `bytes` is its total size; `passages` is null if one of their documents was deleted since.
    `answer` is the ledger id of the answer it was given, if it was one.
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
    """What programs were given, newest first, after the one with id `before`."""
    found = await reads(state.ledger.sessions, limit, before)
    return ReadList(data=[ReadEntry.model_validate(row, from_attributes=True) for row in found])
