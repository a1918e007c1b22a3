"""`/api/ledger`: what left the device, answer by answer, and what programs were given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.api.openai.openapi import failures
from app.container import State
from app.ledger import verify
from app.ledger.leakage import GramCounts, Part
from app.ledger.writer import Passage
from app.storage.tables import LedgerAnswer

router = APIRouter(prefix="/api/ledger", tags=["ledger"])


class Frame(BaseModel):
    """A frame that was sent: when in Unix seconds, its kind, its size, its place in the chain.

    `digest` is the SHA-256 of its bytes; `hash` covers this entry and `previous`.
    """

    seq: int
    at: float
    kind: str
    bytes: int
    digest: str
    previous: str
    hash: str


class Total(BaseModel):
    """The frames of a kind, and their bytes."""

    frames: int = 0
    bytes: int = 0


class Answer(BaseModel):
    """An answer; `left` says what left the device for it, null until it is over, or if unknown."""

    answer: str
    started_at: float
    private: bool
    left: str | None


class AnswerSummary(Answer):
    """An answer with the number of its frames; private ones have none."""

    frames: int
    bytes: int


class AnswerList(BaseModel):
    """Answers, newest first."""

    object: Literal["list"] = "list"
    data: list[AnswerSummary]


class Epsilon(BaseModel):
    """What an answer was allowed to reveal about its passages and what it did, at `delta`.

    `passages` is what each has spent so far on all answers; null if their document was deleted.
    """

    allowed: float
    spent: float
    delta: float
    passages: list[float] | None


class AnswerLedger(Answer):
    """All that left the device for an answer; `fivegrams` is null until it is over.

    `left` says it in words: `asked` is what the cloud was asked ("nothing", "question", "prompt"),
    `given` is what it was asked with (kinds "question", "earlier" questions, "instructions",
    "answers", "tools", "format", "words" that a bias names, "search", "prompt"; text is null for
    answers whose words an earlier entry has), `words` are those of the answer that were sent. Each
    is null if unknown. `epsilon` is null for an answer without a privacy budget.
    """

    asked: str | None
    words: list[str] | None
    given: list[Part] | None
    frames: list[Frame]
    bytes: int
    kinds: dict[str, Total]
    fivegrams: GramCounts | None
    epsilon: Epsilon | None


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
    passages: list[Passage] | None


class ReadList(BaseModel):
    """Reads, newest first."""

    object: Literal["list"] = "list"
    data: list[ReadEntry]


@router.get("", responses=failures(404))
async def list_answers(
    state: State,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: str | None = None,
) -> AnswerList:
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
            entry = {"answer": link[0].answer, **_frame(link).model_dump()}
            yield orjson.dumps(entry) + b"\n"

    headers = {"Content-Disposition": 'attachment; filename="dragon-ledger.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


@router.get("/reads")
async def list_reads(
    state: State,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: str | None = None,
) -> ReadList:
    """What programs were given, newest first, after the one with id `before`."""
    found = await verify.reads(state.ledger.sessions, limit, before)
    return ReadList(data=[ReadEntry.model_validate(row, from_attributes=True) for row in found])


@router.get("/{answer}")
async def get_answer(answer: str, state: State) -> AnswerLedger:
    """Every frame that left the device for an answer."""
    await state.ledger.written()
    row, links = await verify.answer(state.ledger.sessions, answer)
    frames = [_frame(link) for link in links]
    kinds: defaultdict[str, Total] = defaultdict(Total)
    for frame in frames:
        kinds[frame.kind].frames += 1
        kinds[frame.kind].bytes += frame.bytes
    counts = None
    if row.documents is not None:
        counts = GramCounts(row.documents, row.drafts or 0, row.answer or 0)
    epsilon = None
    if row.epsilon is not None:
        spending, passages = state.ledger.spending, row.passages
        spent = None if passages is None else await spending.spent(passages)
        epsilon = Epsilon(**row.epsilon, passages=spent)
    return AnswerLedger(
        **_begun(row),
        asked=row.asked,
        words=row.words,
        given=None if row.given is None else [Part(**part) for part in row.given],
        frames=frames,
        bytes=sum(frame.bytes for frame in frames),
        kinds=kinds,
        fivegrams=counts,
        epsilon=epsilon,
    )


def _frame(link: verify.Link) -> Frame:
    entry, previous = link
    return Frame(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        bytes=entry.bytes,
        digest=entry.digest,
        previous=previous,
        hash=entry.hash,
    )


def _begun(row: LedgerAnswer) -> dict[str, Any]:
    left = verify.left(row)
    return {
        "answer": row.id,
        "started_at": row.started_at,
        "private": row.private,
        "left": None if left is None else str(left),
    }
