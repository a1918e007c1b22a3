"""`/v1/models`: the language model and the embedder."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.openai.field_types import UNSENT
from app.container import AppState, State
from dragon.errors import NotFoundError

router = APIRouter(prefix="/v1/models", tags=["models"])


class UnknownModelError(NotFoundError):
    """The request names a model that is not served, or not for this purpose."""

    code, param = "model_not_found", "model"

    def __init__(self, model: str, served: str) -> None:
        super().__init__(f"The model {model!r} does not exist or does not do this; use {served!r}.")


def require_model(model: str | None, served: str) -> str:
    """The `served` model. Raises `UnknownModelError` if the request names another."""
    if model not in (None, "", served):
        raise UnknownModelError(str(model), served)
    return served


class ModelObject(BaseModel):
    """A model as OpenAI's clients know it.

    `chat_template` is false for a base model: chats with it are rendered as plain text.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "dragon"
    chat_template: Annotated[bool | None, UNSENT] = None


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelObject]


@router.get("")
async def list_models(state: State) -> ModelList:
    """The language model and the embedder."""
    return ModelList(data=list(_served(state).values()))


@router.get("/{model:path}")
async def get_model(model: str, state: State) -> ModelObject:
    """One model; hub names hold a slash, hence the path."""
    served = _served(state)
    if model not in served:
        raise UnknownModelError(model, state.generation.model_name)
    return served[model]


def _served(state: AppState) -> dict[str, ModelObject]:
    writes, embeds = state.generation.model_name, state.embeddings.model_name
    has = state.generation.tokenizer.chats
    return {
        writes: ModelObject(id=writes, created=state.started, chat_template=has),
        embeds: ModelObject(id=embeds, created=state.started),
    }
