"""Vector stores as OpenAI's clients send and read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from app.api.openai.field_types import Names, Str, Strict, neutral
from app.api.openai.paging import Page
from app.api.openai.spellings import Lenient

MAX_QUERY = 8192
MAX_FILES = 100
"""The most files of a batch."""
FileStatus = Literal["in_progress", "completed", "cancelled", "failed"]


class FileCounts(BaseModel):
    """How many files are in each state."""

    in_progress: int = 0
    completed: int = 0
    cancelled: int = 0
    failed: int = 0
    total: int = 0

    @classmethod
    def of(cls, files: Sequence[StoreFile]) -> FileCounts:
        """Those of these files."""
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
    """Why a file could not be read."""

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


VectorStoreList = Page[VectorStore]
StoreFileList = Page[StoreFile]


class StoreBody(Strict):
    """`POST /v1/vector_stores`."""

    name: Str | None = None
    file_ids: Names = ()
    chunking_strategy: Annotated[Any, neutral({"type": "auto"})] = None
    description: Annotated[Any, neutral("")] = None
    expires_after: Annotated[Any, neutral()] = None
    metadata: Annotated[Any, neutral({})] = None


class StoreFileBody(Strict):
    """`POST /v1/vector_stores/{id}/files`."""

    file_id: Str
    attributes: Annotated[Any, neutral({})] = None
    chunking_strategy: Annotated[Any, neutral({"type": "auto"})] = None


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
        BeforeValidator(
            lambda given: [given] if isinstance(given, str) else given,
            json_schema_input_type=str | list[str],
        ),
    ]
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    filters: Annotated[Any, neutral()] = None
    ranking_options: Annotated[Any, neutral({}, {"ranker": "auto"})] = None
    rewrite_query: Annotated[Any, neutral(False)] = None


class FoundText(BaseModel):
    """A passage."""

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
