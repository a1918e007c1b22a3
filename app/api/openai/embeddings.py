"""`POST /v1/embeddings`."""

from __future__ import annotations

import base64
from typing import Annotated, ClassVar, Literal

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from app.api.openai.delivery import unless_gone
from app.api.openai.field_types import NOTHING, PROMPT, Lenient, Str
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.container import State

router = APIRouter(prefix="/v1/embeddings", tags=["embeddings"])

MAX_INPUTS = 2048


class EmbeddingBody(Lenient):
    """`POST /v1/embeddings`; the default `model` is the one that embeds."""

    NOTHING: ClassVar = NOTHING

    model: Str | None = None
    input: Annotated[list[str] | list[list[int]], Field(max_length=MAX_INPUTS), PROMPT]
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None

    dimensions: Annotated[int, Field(ge=1)] | None = None


class EmbeddingObject(BaseModel):
    """A vector of length 1: numbers, or the base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Tokens of the inputs, special ones included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    object: Literal["list"]
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingUsage


@router.post("", response_model=EmbeddingList, responses=failures(404))
async def create_embeddings(http: Request, body: EmbeddingBody, state: State) -> Response:
    """Embed one or several inputs with the model used to find documents."""
    model = require_model(body.model, state.embeddings.model_name)
    state.embeddings.require(body.dimensions)
    async with state.beside.one():
        vectors, tokens = await unless_gone(http.receive, state.embeddings.embed(body.input))
    vectors = vectors.astype("<f4")
    reply = {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(vector.tobytes()).decode()
                if body.encoding_format == "base64"
                else vector,
            }
            for index, vector in enumerate(vectors)
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return Response(
        orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )
