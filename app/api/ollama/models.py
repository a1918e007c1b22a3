"""Ollama's list of models, their details, its version, and embeddings."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from app.api.ollama.bodies import OllamaEmbedBody, OllamaEmbeddingBody, OllamaShowBody
from app.api.openai.models import UnknownModelError, require_model
from app.api.openai.openapi import failures
from app.api.openai.sse import unless_gone
from app.container import AppState, State

router = APIRouter(prefix="/api", tags=["ollama"])

VERSION = "0.12.0"
"""The version of Ollama whose API this is; programs refuse one that is too old."""


class OllamaDetails(BaseModel):
    """What kind of model it is; unknown fields are empty."""

    parent_model: str = ""
    format: str = ""
    family: str = "dragon"
    families: list[str] = Field(default_factory=lambda: ["dragon"])
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaModel(BaseModel):
    """A model in the list. `digest` is of its name, `size` unknown."""

    name: str
    model: str
    modified_at: str
    size: int = 0
    digest: str
    details: OllamaDetails


class OllamaModelList(BaseModel):
    """All models."""

    models: list[OllamaModel]


class Shown(BaseModel):
    """The details of one model."""

    modified_at: str
    details: OllamaDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    template: str = ""
    parameters: str = ""
    license: str = ""


class Version(BaseModel):
    """The version of the API."""

    version: str


class OllamaEmbeddings(BaseModel):
    """The vectors of the inputs; `total_duration` in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaEmbedding(BaseModel):
    """The vector of a text."""

    embedding: list[float]


@router.get("/version")
async def version() -> Version:
    """The version of Ollama whose API this is."""
    return Version(version=VERSION)


@router.get("/tags")
async def tags(state: State) -> OllamaModelList:
    """The model that writes, and the one that embeds."""
    return OllamaModelList(
        models=[
            OllamaModel(
                name=name,
                model=name,
                modified_at=_since(state),
                digest=hashlib.sha256(name.encode()).hexdigest(),
                details=OllamaDetails(),
            )
            for name in (state.generation.model_name, state.embeddings.model_name)
        ]
    )


@router.get("/ps")
async def running(state: State) -> OllamaModelList:
    """The models that are loaded: all of them, always."""
    return await tags(state)


@router.post("/embeddings", responses=failures(404))
async def embed_prompt(http: Request, body: OllamaEmbeddingBody, state: State) -> OllamaEmbedding:
    """Embed one text, as older programs ask."""
    asked = OllamaEmbedBody(model=body.model, input=[body.prompt])
    return OllamaEmbedding(embedding=(await embed(http, asked, state)).embeddings[0])


@router.post("/show", responses=failures(404))
async def show(body: OllamaShowBody, state: State) -> Shown:
    """What a model can do, and its context length."""
    generation, embeddings = state.generation, state.embeddings
    served = {
        generation.model_name: (generation.context_length, _writes(state)),
        embeddings.model_name: (embeddings.context_length, ["embedding"]),
    }
    if body.name not in served:
        raise UnknownModelError(body.name, generation.model_name)
    context_length, capabilities = served[body.name]
    info = {
        "general.architecture": "dragon",
        "general.basename": body.name,
        "dragon.context_length": context_length,
    }
    return Shown(
        modified_at=_since(state),
        details=OllamaDetails(),
        model_info=info,
        capabilities=capabilities,
    )


@router.post("/embed", responses=failures(404))
async def embed(http: Request, body: OllamaEmbedBody, state: State) -> OllamaEmbeddings:
    """Embed one or several inputs with the model used to find documents."""
    require_model(body.name, state.embeddings.model_name)
    state.embeddings.require(body.dimensions)
    began = time.monotonic_ns()
    inputs: Sequence[str | list[int]] = body.input
    async with state.beside.one():
        if body.truncate is not False:
            inputs = await state.threads.run(lambda: [*map(state.embeddings.cut, body.input)])
        embedded = await unless_gone(http.receive, state.embeddings.embed(inputs))
    return OllamaEmbeddings(
        model=body.model,
        embeddings=embedded.vectors.tolist(),
        total_duration=time.monotonic_ns() - began,
        load_duration=0,
        prompt_eval_count=embedded.tokens,
    )


def _writes(state: AppState) -> list[str]:
    tools = ["tools"] if state.generation.tokenizer.call_form is not None else []
    return ["completion", *tools]


def _since(state: AppState) -> str:
    return datetime.fromtimestamp(state.started, UTC).isoformat()
