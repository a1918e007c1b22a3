"""`/v1/search`, passages of the documents, and `/v1/rerank`, as Cohere, Jina and vLLM have it."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.api.openai.delivery import unless_gone
from app.api.openai.field_types import NOTHING, UNSENT, Lenient, Neutral, Str, Strict, invalid
from app.api.openai.files import Store
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.container import State
from app.documents.hits import Scope

router = APIRouter(prefix="/v1", tags=["search"])

MAX_DOCUMENTS = 1000
MAX_DOCUMENT, MAX_CHARACTERS = 50_000, 500_000
"""The most characters of a document, and of all together."""


class SearchRequest(BaseModel):
    """What to search for in the uploaded documents; `documents` and `collections` limit where."""

    query: str = Field(min_length=1, max_length=8192)
    top_k: int = Field(default=5, ge=1, le=100)
    documents: list[str] | None = Field(default=None, max_length=1000)
    collections: list[str] | None = Field(default=None, max_length=1000)


class SearchHit(BaseModel):
    """A passage; `start` and `end` are character offsets in the file's text.

    `confidence`, in percent, is that of text recognised in a picture.

    `score` is the cosine with the query, plus a bonus for sharing the query's words. In an answer's
    sources it is the probability that the passage answers, if that was judged.
    """

    model_config = ConfigDict(from_attributes=True)

    document: str
    filename: Annotated[str, Field(validation_alias="title")]
    text: str
    score: float
    page: int | None
    start: int
    end: int
    confidence: int | None


class SearchReply(BaseModel):
    """The passages nearest to a query, best first."""

    object: Literal["list"] = "list"
    data: list[SearchHit]


@router.post("/search")
async def search(body: SearchRequest, documents: Store) -> SearchReply:
    """The passages of the uploaded documents that fit the query best, however badly they fit."""
    scope = Scope(body.documents, body.collections)
    hits = await documents.search(body.query, body.top_k, scope, relevant=False)
    return SearchReply(data=[SearchHit.model_validate(hit) for hit in hits])


class TextDocument(Strict):
    text: Str


def _text(document: Any) -> Any:
    if isinstance(document, dict):
        if document.keys() != {"text"}:
            raise invalid("a document is a string, or an object with a text")
        return document["text"]
    return document


_Document = Annotated[
    Str,
    BeforeValidator(_text, json_schema_input_type=str | TextDocument),
    Field(max_length=MAX_DOCUMENT),
]


def _not_too_much(documents: list[str]) -> list[str]:
    if sum(map(len, documents)) > MAX_CHARACTERS:
        raise invalid(f"at most {MAX_CHARACTERS} characters in total")
    return documents


class RerankBody(Lenient):
    """A question and the texts to rank by how well they answer it; the best `top_n`, or all."""

    NOTHING: ClassVar = NOTHING

    model: Str | None = None
    query: Annotated[Str, Field(min_length=1, max_length=8192)]
    documents: Annotated[
        list[_Document],
        Field(min_length=1, max_length=MAX_DOCUMENTS),
        AfterValidator(_not_too_much),
    ]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = None

    max_tokens_per_doc: Annotated[Any, Neutral()] = None
    max_chunks_per_doc: Annotated[Any, Neutral()] = None
    rank_fields: Annotated[Any, Neutral(["text"])] = None
    truncate: Annotated[Any, Neutral()] = None


class Ranked(BaseModel):
    """A document by its index in the request, with its text if requested."""

    index: int
    relevance_score: float
    document: Annotated[TextDocument | None, UNSENT] = None


class RankedList(BaseModel):
    id: str
    model: str
    results: list[Ranked]


@router.post("/rerank", responses=failures(404))
async def rerank(http: Request, body: RerankBody, state: State) -> RankedList:
    """Order texts by how likely they answer a question, 0 to 1."""
    model = require_model(body.model, state.reranking.model_name)
    work = state.reranking.scores(body.query, body.documents)
    async with state.beside.one():
        scores = await unless_gone(http.receive, work)
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[: body.top_n]
    results = [Ranked(index=index, relevance_score=scores[index]) for index in best]
    if body.return_documents:
        for each in results:
            each.document = TextDocument(text=body.documents[each.index])
    return RankedList(id=f"rerank-{uuid.uuid4().hex}", model=model, results=results)
