"""`/api/ledger`: what left the device, answer by answer, and what programs were given.

Times are Unix seconds, sizes are bytes, hashes are SHA-256 in hex.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.container import State
from app.ledger import verify
from app.ledger.leakage import GramCounts
from app.ledger.writer import Passage
from app.storage.tables import LedgerAnswer

router = APIRouter(prefix="/api/ledger", tags=["ledger"])

Limit = Annotated[int, Query(ge=1, le=1000)]


class Frame(BaseModel):
    """A frame that was sent, with its place in the chain.

    `digest` is of its bytes; `hash` covers this entry and the `previous` hash.
    """

    seq: int
    at: float
    kind: str
    bytes: int
    digest: str
    previous: str
    hash: str

    @classmethod
    def of(cls, link: verify.Linked) -> Frame:
        entry, previous = link
        fields = {name: getattr(entry, name) for name in ("seq", "at", "kind", "bytes", "digest")}
        return cls(**fields, previous=previous, hash=entry.hash)


class Total(BaseModel):
    """The frames of a kind, and their bytes."""

    frames: int = 0
    bytes: int = 0


class AnswerSummary(BaseModel):
    """An answer; private ones have no frames. `left` says in words what left the device for it.

    It is null while the answer is written, and for answers from before it was recorded.
    """

    answer: str
    started_at: float
    private: bool
    left: str | None
    frames: int
    bytes: int


class AnswerList(BaseModel):
    """Answers, newest first."""

    object: Literal["list"] = "list"
    data: list[AnswerSummary]


class Epsilon(BaseModel):
    """What an answer was allowed to reveal about its passages and what it has spent, at `delta`.

    `passages` is what each has spent so far on all answers; null if their document was deleted.
    """

    allowed: float
    spent: float
    delta: float
    passages: list[float] | None


class GivenPart(BaseModel):
    """Words of one kind that the cloud was asked with."""

    kind: str
    text: str | None


class AnswerLedger(BaseModel):
    """All that left the device for an answer; `fivegrams` is null until it is over.

    `left` says it in words: `asked` is what the cloud was asked ("nothing", "question", "prompt"),
    `given` is what it was asked with (kinds "question", "earlier" questions, "instructions",
    "answers", "tools", "format", "words" that a bias names, "search", "prompt"; text is null for
    answers whose words an earlier entry has), `words` are those of the answer that were sent. Each
    is null if unknown. `epsilon` is null for an answer without a privacy budget.
    """

    answer: str
    started_at: float
    private: bool
    left: str | None
    asked: str | None
    words: list[str] | None
    given: list[GivenPart] | None
    frames: list[Frame]
    bytes: int
    kinds: dict[str, Total]
    fivegrams: GramCounts | None
    epsilon: Epsilon | None


class ReadEntry(BaseModel):
    """Something given to a program; `reader` is the program's own name, `bytes` the total size.

    `answer` is the ledger id of the answer it was given, if it was one. `passages` is null if one
    of their documents was deleted since.
    """

    id: str
    at: float
    reader: str
    tool: str
    answer: str | None
    bytes: int
    passages: list[Passage] | None


class ReadList(BaseModel):
    """Reads, newest first."""

    object: Literal["list"] = "list"
    data: list[ReadEntry]


@router.get("")
async def list_answers(state: State, limit: Limit = 100, before: str | None = None) -> AnswerList:
    """The answers written here, newest first, after the one with id `before`."""
    await state.ledger.written()
    found = await verify.answers(state.ledger.sessions, limit, before)
    return AnswerList(
        data=[
            AnswerSummary(**_begun(row), frames=frames, bytes=size) for row, frames, size in found
        ]
    )


@router.get("/export", response_class=StreamingResponse)
async def export(state: State) -> StreamingResponse:
    """The whole chain, one JSON line per entry, from the first."""
    await state.ledger.written()

    async def lines() -> AsyncIterator[bytes]:
        async for link in verify.chain(state.ledger.sessions):
            yield orjson.dumps({"answer": link[0].answer, **Frame.of(link).model_dump()}) + b"\n"

    headers = {"Content-Disposition": 'attachment; filename="dragon-ledger.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


@router.get("/reads")
async def list_reads(state: State, limit: Limit = 100, before: str | None = None) -> ReadList:
    """What programs were given, newest first, after the one with id `before`."""
    found = await verify.reads(state.ledger.sessions, limit, before)
    return ReadList(data=[ReadEntry.model_validate(row, from_attributes=True) for row in found])


@router.get("/{answer}")
async def get_answer(answer: str, state: State) -> AnswerLedger:
    """Every frame that left the device for an answer."""
    await state.ledger.written()
    row, links = await verify.answer(state.ledger.sessions, answer)
    frames = [Frame.of(link) for link in links]
    kinds: defaultdict[str, Total] = defaultdict(Total)
    for frame in frames:
        kinds[frame.kind].frames += 1
        kinds[frame.kind].bytes += frame.bytes
    counts = None
    if row.documents is not None:
        counts = GramCounts(row.documents, row.drafts or 0, row.answer or 0)
    spent = None if row.passages is None else await state.ledger.spending.spent(row.passages)
    return AnswerLedger(
        **_begun(row),
        asked=row.asked,
        words=row.words,
        given=None if row.given is None else [GivenPart(**part) for part in row.given],
        frames=frames,
        bytes=sum(frame.bytes for frame in frames),
        kinds=kinds,
        fivegrams=counts,
        epsilon=None if row.epsilon is None else Epsilon(**row.epsilon, passages=spent),
    )


def _begun(row: LedgerAnswer) -> dict[str, Any]:
    left = verify.left(row)
    return {
        "answer": row.id,
        "started_at": row.started_at,
        "private": row.private,
        "left": None if left is None else str(left),
    }
