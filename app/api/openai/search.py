"""`/v1/search`: passages of the uploaded documents."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.openai.files import Store
from app.documents.hits import Scope

router = APIRouter(prefix="/v1", tags=["files"])


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

    document: str
    filename: str
    text: str
    score: float
    page: int | None
    start: int
    end: int
    confidence: int | None


class SearchResult(BaseModel):
    """The passages nearest to a query, best first."""

    object: Literal["list"] = "list"
    data: list[SearchHit]


@router.post("/search")
async def search(body: SearchRequest, documents: Store) -> SearchResult:
    """The passages of the uploaded documents that fit the query best, however badly they fit."""
    scope = Scope(body.documents, body.collections)
    hits = await documents.search(body.query, body.top_k, scope, relevant=False)
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
                confidence=hit.confidence,
            )
            for hit in hits
        ]
    )
