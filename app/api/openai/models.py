"""`/v1/models`: the language model and the embedder."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.container import AppState, State
from dragon.errors import NotFoundError

router = APIRouter(prefix="/v1/models", tags=["models"])


class UnknownModelError(NotFoundError):
    """The request names a model that is not served, or not for this."""

    code = "model_not_found"

    def __init__(self, model: str, served: str) -> None:
        super().__init__(f"The model {model!r} does not exist or does not do this; use {served!r}.")
        self.param = "model"


def require_model(model: str, served: str) -> None:
    """Raises `UnknownModelError` unless `model` is the one that is served for the purpose."""
    if model != served:
        raise UnknownModelError(model, served)


class Model(BaseModel):
    """A model as OpenAI's clients know it."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "dragon"


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


@router.get("")
async def list_models(state: State) -> ModelList:
    """The model that writes, and the one that embeds."""
    return ModelList(data=list(_served(state).values()))


@router.get("/{model:path}")
async def get_model(model: str, state: State) -> Model:
    """One model; hub names hold a slash, hence the path."""
    served = _served(state)
    if model not in served:
        raise UnknownModelError(model, state.generation.model_name)
    return served[model]


def _served(state: AppState) -> dict[str, Model]:
    names = (state.generation.model_name, state.embeddings.model_name)
    return {name: Model(id=name, created=state.started) for name in names}
