"""`/v1/files` in OpenAI's shapes, collections, and ingestion progress as server-sent events."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO, Literal, Self
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from app.api.openai.field_types import UNSENT, conflict, invalid
from app.api.openai.paging import Deleted, Order, Page, Paging
from app.container import State
from app.documents.ingestion import Progress
from app.documents.readers.common import Properties
from app.documents.readers.sniff import FileKind
from app.documents.store import MAX_WINDOW, DocumentStore
from app.documents.uploads import MAX_COLLECTION_CHARACTERS, Upload
from app.owners import acting
from app.storage.tables import Document, Status
from dragon.localizable import with_localizable
from dragon.retrieval.chunking import PAGE_BREAK

router = APIRouter(prefix="/v1", tags=["files"])

_PIECE = 1 << 16


def _decimal(text: Any) -> Any:
    """Digits only: pydantic reads 3600.0 and 3_600 as numbers, too."""
    if isinstance(text, str) and not text.isdecimal():
        raise invalid("must be a whole number")
    return text


class UploadFields(BaseModel):
    """What is sent beside an uploaded file.

    With `replace`, the other files of its name in its collection are deleted once this one can be
    found.
    """

    model_config = ConfigDict(extra="forbid")

    purpose: Literal["user_data", "assistants", "batch", "fine-tune", "vision", "evals"] = (
        "user_data"
    )
    collection: Annotated[str, Field(max_length=MAX_COLLECTION_CHARACTERS)] = ""
    replace: bool = False
    anchor: Annotated[Literal["created_at"] | None, Field(alias="expires_after[anchor]")] = None
    lifetime_s: Annotated[
        Annotated[int, Field(ge=3600, le=30 * 24 * 3600), BeforeValidator(_decimal)] | None,
        Field(alias="expires_after[seconds]"),
    ] = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.anchor is None) != (self.lifetime_s is None):
            raise conflict("expires_after[anchor]", "goes with expires_after[seconds]")
        return self


_FORM = UploadFields.model_json_schema()
_FORM["properties"]["file"] = {"type": "string", "format": "binary"}
_FORM["required"] = ["file"]
_BODY = {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}


def _store(state: State) -> DocumentStore:
    return state.documents


Store = Annotated[DocumentStore, Depends(_store)]


class FileObject(BaseModel):
    """OpenAI's `file` object; `created_at` is in Unix seconds.

    Our own fields: `collection`, "" for the default one; `chunks`, how many there are so far;
    `properties`, the file's own metadata; `localizable`, to translate `status_details`; and for a
    shared file, `shared` and, if it is another key's, `shared_by`: that key's name, "" for the
    device.
    """

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Status
    status_details: str | None
    collection: str
    chunks: int
    expires_at: Annotated[int | None, UNSENT] = None
    properties: Annotated[Properties | None, UNSENT] = None
    localizable: Annotated[dict[str, Any] | None, UNSENT] = None
    shared: bool = Field(default=False, exclude_if=lambda shared: not shared)
    shared_by: Annotated[str | None, UNSENT] = None

    @classmethod
    def of(cls, document: Document) -> FileObject:
        details = with_localizable({"status_details": document.status_details})
        by = None if document.owner == acting() else document.owner
        found = cls.model_validate(document, from_attributes=True)
        return found.model_copy(update={"localizable": details.get("localizable"), "shared_by": by})


class FileList(Page[FileObject]):
    """A page of files."""


class Collection(BaseModel):
    """A collection of files; "" is the name of the default one."""

    name: str
    files: int


class CollectionList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Collection]


class TextWindow(BaseModel):
    """A part of a file's parsed text, by character offsets; `length` is that of the whole.

    `page`, from 1, is the page the part begins on, None if the file has no pages.
    """

    id: str
    text: str
    start: int
    end: int
    length: int
    page: int | None


@router.post("/files", openapi_extra={"requestBody": _BODY})
async def upload(request: Request, documents: Store) -> FileObject:
    """Store a file and begin to ingest it; `events` reports its progress."""
    form = Upload(request)
    async with documents.receive() as incoming:
        await form.receive(incoming)
        try:
            fields = UploadFields.model_validate(form.fields)
        except ValidationError as error:
            errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            raise RequestValidationError(errors, body=form.fields) from None
        document = await documents.add(
            form.filename or "",
            incoming,
            fields.purpose,
            fields.collection,
            replace=fields.replace,
            expires_after=fields.lifetime_s,
        )
    return FileObject.of(document)


@router.get("/files")
async def list_files(
    documents: Store,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: str | None = None,
    order: Order = "desc",
    purpose: str | None = None,
    collection: str | None = None,
) -> FileList:
    """The files after `after`, newest first unless `order` is `asc`."""
    files = [FileObject.of(document) for document in await documents.list()]
    files = [
        file
        for file in files
        if purpose in (None, file.purpose) and collection in (None, file.collection)
    ]
    return FileList.of(files, Paging(limit, after, order))


@router.get("/files/{file_id}")
async def get_file(file_id: str, documents: Store) -> FileObject:
    """One file."""
    return FileObject.of(await documents.get(file_id))


@router.delete("/files/{file_id}")
async def delete_file(file_id: str, documents: Store) -> Deleted:
    """Delete a file and everything made from it."""
    await documents.delete(file_id)
    return Deleted(id=file_id, object="file")


@router.get("/files/{file_id}/content", response_class=StreamingResponse)
async def file_content(file_id: str, documents: Store) -> StreamingResponse:
    """The file's bytes as they were uploaded."""
    document = await documents.get(file_id)
    file = await documents.content(file_id)
    media_type = FileKind(document.kind).media_type if document.kind else "application/octet-stream"
    return StreamingResponse(
        _pieces(file),
        media_type=media_type,
        headers={
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            # A browser must not run its content.
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(document.filename)}",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


@router.get("/files/{file_id}/text")
async def file_text(
    file_id: str,
    documents: Store,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> TextWindow:
    """A part of a file's parsed text, at most 100,000 characters; citations index it."""
    document, text = await documents.text(file_id)
    start = min(start, len(text))
    last = min(start + MAX_WINDOW, len(text))
    end = last if end is None else max(start, min(end, last))
    paged = document.kind != "" and FileKind(document.kind).paged
    page = text.count(PAGE_BREAK, 0, start) + 1 if paged else None
    return TextWindow(
        id=file_id, text=text[start:end], start=start, end=end, length=len(text), page=page
    )


@router.post("/files/{file_id}/cancel")
async def cancel_file(file_id: str, documents: Store) -> FileObject:
    """Stop ingesting a file; what can already be found stays."""
    return FileObject.of(await documents.cancel(file_id))


@router.post("/files/{file_id}/retry")
async def retry_file(file_id: str, documents: Store) -> FileObject:
    """Ingest a file whose status is `error` again."""
    return FileObject.of(await documents.retry(file_id))


@router.post("/files/{file_id}/share")
async def share_file(file_id: str, documents: Store) -> FileObject:
    """Let all keys of the device read one of your files."""
    return FileObject.of(await documents.share(file_id, shared=True))


@router.post("/files/{file_id}/unshare")
async def unshare_file(file_id: str, documents: Store) -> FileObject:
    """Stop sharing a file with other keys."""
    return FileObject.of(await documents.share(file_id, shared=False))


@router.get("/collections")
async def list_collections(documents: Store) -> CollectionList:
    """The collections, by name."""
    found = await documents.collections()
    return CollectionList(data=[Collection(name=name, files=files) for name, files in found])


@router.get("/files/{file_id}/events", response_class=StreamingResponse)
async def file_events(file_id: str, documents: Store) -> StreamingResponse:
    """Ingestion progress as server-sent events, until it ends.

    Each event's data is `{"stage", "status", "done", "total", "message", "percent",
    "seconds_left"}`, the stages being stored, parsed, chunked, embedded and indexed. Chunked text
    can be found by its words, embedded text also by its meaning.
    """
    progress = await documents.watch(file_id)
    return StreamingResponse(
        _server_sent(progress),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _server_sent(progress: AsyncIterator[Progress]) -> AsyncIterator[bytes]:
    async for each in progress:
        yield b"data: " + orjson.dumps(with_localizable(asdict(each))) + b"\n\n"
