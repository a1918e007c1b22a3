"""`POST /v1/rerank`, in the shape that Cohere, Jina and vLLM share."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from app.api.openai.field_types import Str, Strict, invalid, neutral
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.spellings import NOTHING, Lenient
from app.api.openai.sse import unless_gone
from app.container import State

router = APIRouter(prefix="/v1/rerank", tags=["search"])

MAX_DOCUMENTS = 1000
MAX_DOCUMENT, MAX_CHARACTERS = 50_000, 500_000
"""The most characters of a document, and of all together."""


class TextDocument(Strict):
    """A document as an object."""

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

    max_tokens_per_doc: Annotated[Any, neutral()] = None
    max_chunks_per_doc: Annotated[Any, neutral()] = None
    rank_fields: Annotated[Any, neutral(["text"])] = None
    truncate: Annotated[Any, neutral()] = None


class Ranked(BaseModel):
    """A document by its index in the request, with its text if requested."""

    index: int
    relevance_score: float
    document: TextDocument | None = Field(default=None, exclude_if=lambda value: value is None)


class RankedList(BaseModel):
    """The documents, best first."""

    id: str
    model: str
    results: list[Ranked]


@router.post("", responses=failures(404))
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
