"""`/v1/vector_stores/{id}/file_batches`: several files put into a store at once.

Batches are not stored: a batch's id lists its files.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.openai.field_types import Str
from app.api.openai.openapi import failures
from app.api.openai.paging import Order, page
from app.api.openai.spellings import Lenient
from app.api.openai.vector_store_shapes import FileCounts, FileStatus, StoreFile, StoreFileList
from app.api.openai.vector_stores import Store, put, store_of
from app.container import State
from dragon.errors import NotFoundError

router = APIRouter(
    prefix="/v1/vector_stores/{store_id}/file_batches", tags=["files"], responses=failures(404)
)
MAX_FILES = 100
_BATCH, _FILE = "vsfb_", "file-"


class BatchFile(Lenient):
    """A file of a batch that lists its files as objects."""

    AT: ClassVar = "files[]."

    file_id: Str


class BatchBody(Lenient):
    """`POST /v1/vector_stores/{id}/file_batches`: ids of files, or files."""

    file_ids: Annotated[list[Str], Field(max_length=MAX_FILES)] = Field(default_factory=list)
    files: Annotated[list[BatchFile], Field(max_length=MAX_FILES)] = Field(default_factory=list)


class FileBatch(BaseModel):
    """OpenAI's `vector_store.files_batch`."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed"]
    file_counts: FileCounts


@router.post("")
async def create_batch(store_id: str, body: BatchBody, state: State) -> FileBatch:
    """Put files into a store."""
    wanted = list(dict.fromkeys([*body.file_ids, *(file.file_id for file in body.files)]))
    store = await store_of(store_id, state)
    await put(wanted, store, "file_ids", state)
    return _batch(await store_of(store_id, state), wanted)


@router.get("/{batch_id}")
async def get_batch(store_id: str, batch_id: str, state: State) -> FileBatch:
    """The progress of a batch's files."""
    return _batch(await store_of(store_id, state), _ids(batch_id))


@router.post("/{batch_id}/cancel")
async def cancel_batch(store_id: str, batch_id: str, state: State) -> FileBatch:
    """The batch, unchanged: its files were put into the store at once, and stay there."""
    return await get_batch(store_id, batch_id, state)


@router.get("/{batch_id}/files")
async def list_batch_files(
    store_id: str,
    batch_id: str,
    state: State,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
    order: Order = "desc",
    filter: FileStatus | None = None,  # noqa: A002 - OpenAI's name
) -> StoreFileList:
    """The files of a batch, newest first unless `order` is `asc`."""
    files = _files(await store_of(store_id, state), _ids(batch_id))
    wanted = [file for file in files if filter in (None, file.status)]
    return StoreFileList(**page(wanted, limit, after, order))


def _ids(batch_id: str) -> list[str]:
    names = batch_id.removeprefix(_BATCH).split(".")
    if not batch_id.startswith(_BATCH) or len(names) > MAX_FILES:
        raise NotFoundError(f"There is no batch '{batch_id}' in this vector store.")
    return [f"{_FILE}{name}" for name in names if name]


def _files(store: Store, ids: list[str]) -> list[StoreFile]:
    """The files that are still in the store."""
    return [file for file in store.files() if file.id in ids]


def _batch(store: Store, ids: list[str]) -> FileBatch:
    files = _files(store, ids)
    states = [file.status for file in files]
    counts = FileCounts(total=len(states), **{each: states.count(each) for each in set(states)})
    return FileBatch(
        id=_BATCH + ".".join(each.removeprefix(_FILE) for each in ids),
        created_at=max((file.created_at for file in files), default=store.began),
        vector_store_id=store.id,
        status="in_progress" if counts.in_progress else "completed",
        file_counts=counts,
    )
