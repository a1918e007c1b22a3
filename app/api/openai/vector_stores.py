"""`/v1/vector_stores` in OpenAI's shapes: the named collections of documents.

A store without files is a project without documents.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.openai.field_types import LISTED, Lenient, Names, Neutral, Str, Strict, wrong
from app.api.openai.paging import Deleted, Page, Paged, Paging
from app.container import AppState, State
from app.documents.folders.keeping import CANCELLED
from app.documents.hits import DocumentHit, Scope
from app.documents.store import SEARCHED
from app.storage.tables import Document, Status
from dragon.errors import InvalidRequestError, NotFoundError

router = APIRouter(prefix="/v1/vector_stores", tags=["files"])

_BATCH, _FILE = "vsfb_", "file-"
MAX_QUERY = 8192
MAX_FILES = 100
"""The most files of a batch."""
FileStatus = Literal["in_progress", "completed", "cancelled", "failed"]


class FileCounts(BaseModel):
    in_progress: int = 0
    completed: int = 0
    cancelled: int = 0
    failed: int = 0
    total: int = 0

    @property
    def status(self) -> Literal["in_progress", "completed"]:
        """The status of a store or a batch with these files."""
        return "in_progress" if self.in_progress else "completed"

    @classmethod
    def of(cls, files: Sequence[StoreFile]) -> FileCounts:
        states = [file.status for file in files]
        return cls(total=len(states), **{each: states.count(each) for each in set(states)})


class VectorStore(BaseModel):
    """OpenAI's `vector_store`; `created_at` is when its oldest file was added, in Unix seconds."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCounts
    status: Literal["in_progress", "completed"]
    expires_after: None = None
    expires_at: None = None
    last_active_at: int
    metadata: dict[str, str] = Field(default_factory=dict)


class LastError(BaseModel):
    code: Literal["invalid_file"] = "invalid_file"
    message: str


class StoreFile(BaseModel):
    """OpenAI's `vector_store.file`; its id is the file's."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    vector_store_id: str
    usage_bytes: int
    status: FileStatus
    last_error: LastError | None
    attributes: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, store_id: str) -> StoreFile:
        """A document as a file of a store."""
        processed = document.status == Status.PROCESSED
        status: FileStatus = "completed" if processed else "in_progress"
        error = None
        if document.status == Status.ERROR:
            status = "cancelled" if document.status_details == CANCELLED else "failed"
            error = LastError(message=document.status_details or "")
        return cls(
            id=document.id,
            created_at=document.created_at,
            vector_store_id=store_id,
            usage_bytes=document.bytes,
            status=status,
            last_error=error,
        )


VectorStoreList = Page[VectorStore]
StoreFileList = Page[StoreFile]


class StoreBody(Strict):
    """`POST /v1/vector_stores`."""

    name: Str | None = None
    file_ids: Names = ()
    chunking_strategy: Annotated[Any, Neutral({"type": "auto"})] = None
    description: Annotated[Any, Neutral("")] = None
    expires_after: Annotated[Any, Neutral()] = None
    metadata: Annotated[Any, Neutral({})] = None


class StoreFileBody(Strict):
    """`POST /v1/vector_stores/{id}/files`."""

    file_id: Str
    attributes: Annotated[Any, Neutral({})] = None
    chunking_strategy: Annotated[Any, Neutral({"type": "auto"})] = None


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


class StoreSearchBody(Strict):
    """`POST /v1/vector_stores/{id}/search`."""

    query: Annotated[
        list[Annotated[Str, Field(min_length=1, max_length=MAX_QUERY)]],
        Field(min_length=1, max_length=8),
        LISTED,
    ]
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    filters: Annotated[Any, Neutral()] = None
    ranking_options: Annotated[Any, Neutral({}, {"ranker": "auto"})] = None
    rewrite_query: Annotated[Any, Neutral(False)] = None


class FoundText(BaseModel):
    type: Literal["text"] = "text"
    text: str


class FoundPassage(BaseModel):
    """A found passage; its score is as in `/v1/search`."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str] = Field(default_factory=dict)
    content: list[FoundText]


class StoreSearchResult(BaseModel):
    """The passages nearest to the queries, best first."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[FoundPassage]
    has_more: Literal[False] = False
    next_page: None = None


@dataclass(frozen=True)
class Store:
    """A collection with its documents, newest first; `began` is when an empty one was created."""

    name: str
    documents: Sequence[Document]
    began: int

    @property
    def id(self) -> str:
        """Its id, the same whatever it contains."""
        return _id_of(self.name)

    @property
    def object(self) -> VectorStore:
        """The store as clients read it."""
        counts = FileCounts.of(self.files)
        created = [document.created_at for document in self.documents] or [self.began]
        return VectorStore(
            id=self.id,
            created_at=min(created),
            last_active_at=max(created),
            name=self.name,
            usage_bytes=sum(document.bytes for document in self.documents),
            file_counts=counts,
            status=counts.status,
        )

    @property
    def files(self) -> list[StoreFile]:
        """Its files, newest first."""
        return [StoreFile.of(document, self.id) for document in self.documents]

    def file(self, file_id: str) -> StoreFile:
        """One of its files. Raises `NotFoundError`."""
        for file in self.files:
            if file.id == file_id:
                return file
        raise NotFoundError(f"There is no file '{file_id}' in this vector store.")

    def page(
        self, paging: Paging, status: FileStatus | None, ids: Sequence[str] | None = None
    ) -> StoreFileList:
        """A page of its files; if given, only those with a status and one of these ids."""
        files = [file for file in self.files if status in (None, file.status)]
        return StoreFileList.of([each for each in files if ids is None or each.id in ids], paging)


@router.post("")
async def create_store(body: StoreBody, state: State) -> VectorStore:
    """Create a collection, and put files into it."""
    name = f"store {secrets.token_hex(4)}" if body.name is None else body.name.strip()
    if any(store.name == name for store in await _stores(state)):
        raise wrong(
            "name", f"a vector store of this name exists, {_id_of(name)}; use it, or another name"
        )
    await _require_free(body.file_ids, name, "file_ids", state)
    name = await state.conversations.projects.put(name, "")
    await state.documents.move(body.file_ids, name)
    return (await _store_of(_id_of(name), state)).object


@router.get("")
async def list_stores(state: State, paging: Paged) -> VectorStoreList:
    """The named collections, newest first unless `order` is `asc`."""
    stores = [store.object for store in await _stores(state)]
    stores.sort(key=lambda store: (-store.created_at, store.name))
    return VectorStoreList.of(stores, paging)


@router.get("/{store_id}")
async def get_store(store_id: str, state: State) -> VectorStore:
    """One store."""
    return (await _store_of(store_id, state)).object


@router.delete("/{store_id}")
async def delete_store(store_id: str, state: State) -> Deleted:
    """Delete a collection; its files stay, in none."""
    store = await _store_of(store_id, state)
    await state.documents.move([each.id for each in store.documents], "")
    await state.conversations.projects.delete(store.name)
    return Deleted(id=store_id, object="vector_store.deleted")


@router.post("/{store_id}/files")
async def add_file(store_id: str, body: StoreFileBody, state: State) -> StoreFile:
    """Put a file into a store."""
    store = await _put([body.file_id], store_id, "file_id", state)
    return store.file(body.file_id)


@router.get("/{store_id}/files")
async def list_store_files(
    store_id: str,
    state: State,
    paging: Paged,
    filter: FileStatus | None = None,  # noqa: A002 - OpenAI's name
) -> StoreFileList:
    """The files of a store, newest first unless `order` is `asc`."""
    return (await _store_of(store_id, state)).page(paging, filter)


@router.get("/{store_id}/files/{file_id}")
async def get_store_file(store_id: str, file_id: str, state: State) -> StoreFile:
    """One file of a store."""
    return (await _store_of(store_id, state)).file(file_id)


@router.delete("/{store_id}/files/{file_id}")
async def remove_file(store_id: str, file_id: str, state: State) -> Deleted:
    """Take a file out of a store; the file stays, in no collection."""
    (await _store_of(store_id, state)).file(file_id)
    document = await state.documents.own(file_id)
    await state.documents.move([document.id], "")
    return Deleted(id=file_id, object="vector_store.file.deleted")


@router.post("/{store_id}/search")
async def search_store(store_id: str, body: StoreSearchBody, state: State) -> StoreSearchResult:
    """The passages of a store's files that best fit a query, or any of several."""
    store = await _store_of(store_id, state)
    found: dict[tuple[str, int], DocumentHit] = {}
    for query in body.query if store.documents else ():
        scope = Scope(collections=[store.name])
        for hit in await state.documents.search(query, body.max_num_results, scope, relevant=False):
            place = hit.document, hit.start
            if place not in found or found[place].score < hit.score:
                found[place] = hit
    best = sorted(found.values(), key=lambda hit: -hit.score)[: body.max_num_results]
    return StoreSearchResult(
        search_query=body.query,
        data=[
            FoundPassage(
                file_id=hit.document,
                filename=hit.title,
                score=hit.score,
                content=[FoundText(text=hit.text)],
            )
            for hit in best
        ],
    )


@router.post("/{store_id}/file_batches")
async def create_batch(store_id: str, body: BatchBody, state: State) -> FileBatch:
    """Put several files into a store. A batch is not stored: its id lists its files."""
    wanted = list(dict.fromkeys([*body.file_ids, *(file.file_id for file in body.files)]))
    if len(wanted) > MAX_FILES:
        raise wrong("file_ids", f"a batch has at most {MAX_FILES} files, `files` included")
    await _put(wanted, store_id, "file_ids", state)
    return await get_batch(
        store_id, _BATCH + ".".join(each.removeprefix(_FILE) for each in wanted), state
    )


@router.get("/{store_id}/file_batches/{batch_id}")
@router.post("/{store_id}/file_batches/{batch_id}/cancel", name="cancel_batch")
async def get_batch(store_id: str, batch_id: str, state: State) -> FileBatch:
    """The progress of a batch. Its files were put into the store at once: none is cancelled."""
    store, ids = await _store_of(store_id, state), _ids(batch_id)
    files = [file for file in store.files if file.id in ids]
    counts = FileCounts.of(files)
    return FileBatch(
        id=batch_id,
        created_at=max((file.created_at for file in files), default=store.began),
        vector_store_id=store.id,
        status=counts.status,
        file_counts=counts,
    )


@router.get("/{store_id}/file_batches/{batch_id}/files")
async def list_batch_files(
    store_id: str,
    batch_id: str,
    state: State,
    paging: Paged,
    filter: FileStatus | None = None,  # noqa: A002 - OpenAI's name
) -> StoreFileList:
    """The files of a batch, newest first unless `order` is `asc`."""
    return (await _store_of(store_id, state)).page(paging, filter, _ids(batch_id))


def _ids(batch_id: str) -> list[str]:
    """The ids of a batch's files. Raises `NotFoundError`."""
    names = batch_id.removeprefix(_BATCH).split(".")
    if not batch_id.startswith(_BATCH) or len(names) > MAX_FILES:
        raise NotFoundError(f"There is no batch '{batch_id}' in this vector store.")
    return [f"{_FILE}{name}" for name in names if name]


async def _put(file_ids: Sequence[str], store_id: str, param: str, state: AppState) -> Store:
    """The store with these files in it. Raises `InvalidRequestError` if one is in another."""
    store = await _store_of(store_id, state)
    await _require_free(file_ids, store.name, param, state)
    await state.documents.move(file_ids, store.name)
    return await _store_of(store_id, state)


async def limits(store_ids: Sequence[str], state: AppState) -> dict[str, tuple[str, ...]]:
    """The limits of a search in these stores; none if no store is named.

    A collection's name works as well as its id. Raises `InvalidRequestError` for an unknown one.
    """
    if not store_ids:
        return {}
    stores = await _stores(state)
    known = {store.id: store for store in stores} | {store.name: store for store in stores}
    for each in store_ids:
        if each not in known:
            message = f"vector_store_ids: there is no vector store '{each}'"
            raise InvalidRequestError(message, param="tools")
    names = tuple(known[each].name for each in store_ids if known[each].documents)
    return {"collections": names} if names else {"documents": ()}


def _id_of(name: str) -> str:
    return f"vs_{hashlib.sha256(name.encode()).hexdigest()[:24]}"


async def _stores(state: AppState) -> list[Store]:
    documents: dict[str, list[Document]] = {}
    for document in await state.documents.list():
        documents.setdefault(document.collection, []).append(document)
    projects = await state.conversations.projects.list()
    return [Store(each.name, documents.get(each.name, []), state.started) for each in projects]


async def _store_of(store_id: str, state: AppState) -> Store:
    for store in await _stores(state):
        if store.id == store_id:
            return store
    raise NotFoundError(f"There is no vector store '{store_id}'.")


async def _require_free(file_ids: Sequence[str], name: str, param: str, state: AppState) -> None:
    """Raises `InvalidRequestError` for a file that cannot be put into the collection."""
    for file_id in file_ids:
        try:
            document = await state.documents.own(file_id)
        except NotFoundError as error:
            raise wrong(param, error.message) from error
        if document.purpose not in SEARCHED:
            raise wrong(
                param,
                f"a file for the purpose '{document.purpose}' is not searched; upload it for "
                "'assistants'",
            )
        if document.collection not in ("", name):
            raise wrong(
                param,
                f"a file can be in one vector store only, and '{file_id}' is in "
                f"{_id_of(document.collection)}; remove it there first",
            )
