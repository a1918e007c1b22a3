"""`/api/ledger`: what left the device, answer by answer, and what programs were given.

Times are Unix seconds, sizes are bytes, hashes are SHA-256 in hex.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from app.api.openai.openapi import failures
from app.container import State
from app.ledger import verify
from app.storage.tables import LedgerAnswer

router = APIRouter(prefix="/api/ledger", tags=["ledger"])

Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("", responses=failures(404))
async def list_answers(
    state: State, limit: Limit = 100, before: str | None = None
) -> dict[str, Any]:
    """The answers written here, newest first, after the one with id `before`.

    Private ones have no frames. `left` says in words what left the device; it is null while the
    answer is written, and for answers from before it was recorded.
    """
    await state.ledger.written()
    found = await verify.answers(state.ledger.sessions, limit, before)
    data = [_begun(row) | {"frames": frames, "bytes": size} for row, frames, size in found]
    return {"object": "list", "data": data}


@router.get("/export", response_class=StreamingResponse)
async def export(state: State) -> StreamingResponse:
    """The whole chain, one JSON line per entry, from the first."""
    await state.ledger.written()

    async def lines() -> AsyncIterator[bytes]:
        async for link in verify.chain(state.ledger.sessions):
            yield orjson.dumps({"answer": link[0].answer, **_frame(link)}) + b"\n"

    headers = {"Content-Disposition": 'attachment; filename="dragon-ledger.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


@router.get("/reads")
async def list_reads(state: State, limit: Limit = 100, before: str | None = None) -> dict[str, Any]:
    """What programs were given, newest first, after the one with id `before`.

    `reader` is the program's own name, `bytes` the total size, `answer` the ledger id of the answer
    it was given, if it was one. `passages` is null if one of their documents was deleted since.
    """
    names = ("id", "at", "reader", "tool", "answer", "bytes", "passages")
    found = await verify.reads(state.ledger.sessions, limit, before)
    data = [{name: getattr(row, name) for name in names} for row in found]
    return {"object": "list", "data": data}


@router.get("/{answer}")
async def get_answer(answer: str, state: State) -> dict[str, Any]:
    """Every frame that left the device for an answer.

    `left` says in words what left: `asked` is what the cloud was asked ("nothing", "question",
    "prompt"), `given` is what it was asked with (kinds "question", "earlier" questions,
    "instructions", "answers", "tools", "format", "words" that a bias names, "search", "prompt";
    text is null for answers whose words an earlier entry has), `words` are those of the answer that
    were sent. Each is null if unknown.

    `fivegrams` counts runs of five tokens in the `documents` that the answer was written from, in
    `drafts` of these that were sent, and in the part of the `answer` that the cloud knows; it is
    null until the answer is over. `epsilon` is what it was `allowed` to reveal about its passages
    and has `spent`, at `delta`; `passages` is what each has spent so far on all answers, null if
    their document was deleted. It is null for an answer without a privacy budget.
    """
    await state.ledger.written()
    row, links = await verify.answer(state.ledger.sessions, answer)
    frames = [_frame(link) for link in links]
    kinds: dict[str, dict[str, int]] = {}
    for frame in frames:
        total = kinds.setdefault(frame["kind"], {"frames": 0, "bytes": 0})
        total["frames"] += 1
        total["bytes"] += frame["bytes"]
    counts = {"documents": row.documents, "drafts": row.drafts, "answer": row.answer}
    spending = state.ledger.spending
    spent = None if row.passages is None else await spending.spent(row.passages)
    return {
        **_begun(row),
        "asked": row.asked,
        "words": row.words,
        "given": row.given,
        "frames": frames,
        "bytes": sum(frame["bytes"] for frame in frames),
        "kinds": kinds,
        "fivegrams": None if row.documents is None else counts,
        "epsilon": None if row.epsilon is None else {**row.epsilon, "passages": spent},
    }


def _frame(link: verify.Linked) -> dict[str, Any]:
    """A frame with its place in the chain; `hash` covers it and the `previous` hash."""
    entry, previous = link
    fields = {name: getattr(entry, name) for name in ("seq", "at", "kind", "bytes", "digest")}
    return {**fields, "previous": previous, "hash": entry.hash}


def _begun(row: LedgerAnswer) -> dict[str, Any]:
    left = verify.left(row)
    return {
        "answer": row.id,
        "started_at": row.started_at,
        "private": row.private,
        "left": None if left is None else str(left),
    }
