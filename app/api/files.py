"""`/v1/files` in OpenAI's shapes, ingestion progress as server-sent events, and `/v1/search`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.documents import DocumentStore
from app.ingestion import Progress
from app.models import Document, Status
from app.parsing import Kind
from app.uploads import Form
from dragon.errors import InvalidRequestError

router = APIRouter(prefix="/v1", tags=["files"])

PURPOSES = ("user_data", "assistants", "batch", "fine-tune", "vision", "evals")

_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": PURPOSES},
                    },
                }
            }
        },
    }
}


def store(request: Request) -> DocumentStore:
    """The document store of the running service."""
    documents: DocumentStore = request.app.state.dragon.documents
    return documents


Store = Annotated[DocumentStore, Depends(store)]


class FileObject(BaseModel):
    """OpenAI's `file` object; `created_at` is in Unix seconds."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Status
    status_details: str | None

    @classmethod
    def of(cls, document: Document) -> FileObject:
        """The object that stands for a document."""
        return cls.model_validate(document, from_attributes=True)


class FileList(BaseModel):
    """A page of files."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(BaseModel):
    """The answer to a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class SearchRequest(BaseModel):
    """What to look for among the uploaded documents."""

    query: str = Field(min_length=1, max_length=8192)
    top_k: int = Field(default=5, ge=1, le=100)


class SearchHit(BaseModel):
    """A passage; `score` is its cosine with the query, `start` and `end` count characters."""

    document: str
    filename: str
    text: str
    score: float
    page: int | None
    start: int
    end: int


class SearchResult(BaseModel):
    """The passages nearest to a query, best first."""

    object: Literal["list"] = "list"
    data: list[SearchHit]


@router.post("/files", openapi_extra=_UPLOAD_BODY)
async def upload(request: Request, documents: Store) -> FileObject:
    """Store a file and begin to ingest it; `events` tells how that goes."""
    form = Form(request)
    async with documents.receive() as incoming:
        await form.receive(incoming)
        purpose = form.fields.get("purpose", PURPOSES[0])
        if purpose not in PURPOSES:
            allowed = ", ".join(PURPOSES)
            raise InvalidRequestError(f"purpose must be one of: {allowed}.", param="purpose")
        document = await documents.add(form.filename or "", incoming, purpose)
    return FileObject.of(document)


@router.get("/files")
async def list_files(
    documents: Store,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
    purpose: str | None = None,
) -> FileList:
    """The files, newest first unless `order` is `asc`, from the one behind `after` on."""
    files = [FileObject.of(document) for document in await documents.list()]
    files = [file for file in files if purpose is None or file.purpose == purpose]
    if order == "asc":
        files.reverse()
    if after is not None:
        ids = [file.id for file in files]
        if after not in ids:
            raise InvalidRequestError(f"There is no file '{after}' in the list.", param="after")
        files = files[ids.index(after) + 1 :]
    page = files[:limit]
    return FileList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(files) > limit,
    )


@router.get("/files/{file_id}")
async def get_file(file_id: str, documents: Store) -> FileObject:
    """One file."""
    return FileObject.of(await documents.get(file_id))


@router.delete("/files/{file_id}")
async def delete_file(file_id: str, documents: Store) -> FileDeleted:
    """Delete a file with everything made from it."""
    await documents.delete(file_id)
    return FileDeleted(id=file_id)


@router.get("/files/{file_id}/content", response_class=FileResponse)
async def file_content(file_id: str, documents: Store) -> FileResponse:
    """The file's bytes as they were uploaded."""
    document = await documents.get(file_id)
    return FileResponse(
        await documents.content(file_id),
        media_type=Kind(document.kind).media_type,
        filename=document.filename,  # as an attachment: a browser must not run what is in it
        headers={"X-Content-Type-Options": "nosniff"},
    )


@router.get("/files/{file_id}/events", response_class=StreamingResponse)
async def file_events(file_id: str, documents: Store) -> StreamingResponse:
    """Ingestion progress as server-sent events, until `status` is `processed` or `error`.

    Each event's data is `{"stage", "status", "done", "total", "message"}`, the stages being stored,
    parsed, chunked, embedded and indexed.
    """
    progress = await documents.watch(file_id)
    return StreamingResponse(
        _server_sent(progress),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _server_sent(progress: AsyncIterator[Progress]) -> AsyncIterator[bytes]:
    async for each in progress:
        yield b"data: " + orjson.dumps(each) + b"\n\n"


@router.post("/search")
async def search(body: SearchRequest, documents: Store) -> SearchResult:
    """The passages of the uploaded documents nearest to the query, however far away they are."""
    hits = await documents.search(body.query, body.top_k, minimum_cosine=-1.0)
    return SearchResult(
        data=[
            SearchHit(
                document=hit.document,
                filename=hit.title,
                text=hit.text,
                score=hit.score,
                page=hit.page,
                start=hit.start,
                end=hit.end,
            )
            for hit in hits
        ]
    )
