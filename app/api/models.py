"""`/v1/models`: the one model that is served."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.respond import require_model
from app.state import AppState, State

router = APIRouter(prefix="/v1/models")


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
    """The model in a list."""
    return ModelList(data=[_served(state)])


@router.get("/{model:path}")
async def get_model(model: str, state: State) -> Model:
    """The model; hub names hold a slash, hence the path."""
    require_model(model, state)
    return _served(state)


def _served(state: AppState) -> Model:
    return Model(id=state.generation.model_name, created=state.started)
