"""`/api/models/offers`: models that can be had from the hub, fetching one, ending that."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from app.api.openai.openapi import failures
from app.api.page.model_choice import Named
from app.container import State
from app.models.catalogue import offer_named
from app.models.download import Standing
from app.models.model import installed_memory
from dragon.localizable import with_localizable

router = APIRouter(prefix="/api/models", tags=["models"])


@router.get("/offers")
async def list_offers(state: State) -> dict[str, Any]:
    """All of them, each with how much of it is here; `fits`: this machine has the memory."""
    found = await asyncio.to_thread(state.downloads.standings, state.settings.models_dir)
    return {"data": [_shown(standing) for standing in found]}


@router.post("/get", status_code=202, responses=failures(404))
async def get_model(body: Named, state: State) -> None:
    """Fetch one, from where an earlier attempt ended; the list says how far it is."""
    offer = offer_named(body.name)
    await asyncio.to_thread(state.downloads.start, offer, state.settings.models_dir)


@router.post("/get/cancel", status_code=204, responses=failures(404))
async def cancel(body: Named, state: State) -> None:
    """End that, and delete what has come of it."""
    offer = offer_named(body.name)
    await asyncio.to_thread(state.downloads.cancel, offer, state.settings.models_dir)


def _shown(standing: Standing) -> dict[str, Any]:
    offer = standing.offer
    return with_localizable(
        {
            "name": offer.name,
            "memory": offer.memory,
            "licence": offer.licence,
            "good_at": offer.good_at,
            "fits": offer.memory <= installed_memory(),
            "stage": standing.stage,
            "there": standing.there,
            "size": standing.size,
            "problem": standing.problem,
        }
    )
