"""`/api/models`: the models on this machine, trying one, and choosing the next start's."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from app.api.openai.openapi import failures
from app.container import State
from app.models.choice import choose, prepare
from app.models.found import look
from dragon.localizable import with_localizable

router = APIRouter(prefix="/api/models", tags=["models"])


class Named(BaseModel):
    """A model, by its name in the list."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str


@router.get("")
async def list_models(state: State) -> dict[str, Any]:
    """What was found; the names of the one that answers now and of the next start's."""
    found = await asyncio.to_thread(look, state.settings)
    models = [
        with_localizable({name: value for name, value in asdict(model).items() if name != "file"})
        for model in found.models
    ]
    return {"data": models, "current": found.current, "next": found.next}


@router.post("/try", responses=failures(404))
async def try_model(body: Named, request: Request, state: State) -> dict[str, Any] | None:
    """Have it write a short answer in a process of its own, which ends when the caller leaves."""
    found = await asyncio.to_thread(look, state.settings)
    model = found.named(body.name)
    await asyncio.to_thread(prepare, model)
    report = await state.trials.run(model, lambda: _gone(request))
    return None if report is None else with_localizable(asdict(report))


@router.post("/use", responses=failures(404))
async def use_model(body: Named, state: State) -> dict[str, str]:
    """Have the next start take it; `says` is what is left to do."""
    found = await asyncio.to_thread(look, state.settings)
    says = await asyncio.to_thread(choose, found.named(body.name), state.settings)
    return {"next": body.name, "says": says}


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
