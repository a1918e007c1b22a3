"""`/api/models`: the models on this machine; trying, choosing and downloading one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, fields
from typing import Any

from fastapi import APIRouter, Request

from app.api.openai.delivery import client_gone
from app.api.openai.field_types import Strict
from app.api.openai.openapi import failures
from app.api.page.languages import texts
from app.container import AppState, State
from app.models.catalogue import offer_named
from app.models.choice import choose, prepare
from app.models.download import Standing
from app.models.found import Listing, look
from app.models.model import Model, ModelKind, installed_memory
from app.models.trial import Task
from dragon.errors import InvalidRequestError
from dragon.keys import SendableKey
from dragon.localizable import with_localizable

router = APIRouter(prefix="/api/models", tags=["models"])

_SHOWN = {each.name for each in fields(Model)} - {"file", "key"}


class Named(Strict):
    """A model, by its name in the list."""

    name: str


class ServerKey(Named):
    """A key for a model server, by the server's name in the list."""

    key: SendableKey


@router.get("")
async def list_models(state: State) -> dict[str, Any]:
    """The models found; the names of the current one and of the one that was chosen.

    `loading`: the next one is being loaded, and then takes over.
    """
    found = await _found(state)
    models = [
        with_localizable({name: value for name, value in asdict(model).items() if name in _SHOWN})
        for model in found.models
    ]
    return {
        "data": models,
        "current": found.current,
        "next": found.next,
        "loading": state.succession is not None and state.succession.loading,
    }


@router.post("/try", responses=failures(404))
async def try_model(body: Named, request: Request, state: State) -> dict[str, Any] | None:
    """Have a model write a short answer in its own process, which ends if the caller leaves.

    It is asked in the browser's language.
    """
    found = await _found(state)
    model = found.named(body.name)
    await asyncio.to_thread(prepare, model)
    task = Task.of(texts(request.headers.get("accept-language", "")))
    report = await state.trials.run(model, task, lambda: client_gone(request.receive))
    return None if report is None else with_localizable(asdict(report))


@router.post("/use", responses=failures(404))
async def use_model(body: Named, state: State) -> dict[str, str]:
    """Choose a model. Where `dragon up` runs the device, it takes over as soon as it is loaded.

    Elsewhere it is that of the next start, and `says` is what is left to do.
    """
    found = await _found(state)
    says = await asyncio.to_thread(choose, found.named(body.name), state.settings)
    if state.succession is None:
        return {"next": body.name, "says": says}
    state.succession.switch()
    return {"next": body.name, "says": ""}


@router.post("/key", status_code=204, responses=failures(404))
async def use_key(body: ServerKey, state: State) -> None:
    """Send a model server this key from now on, if it accepts it.

    It is kept in memory until one of its models is chosen.
    """
    server = (await _found(state)).named(body.name)
    if server.kind is not ModelKind.SERVER:
        raise InvalidRequestError("Only a model server takes a key.", param="name")
    others = {url: key for url, key in state.model_keys.items() if url != server.setting}
    tried = await asyncio.to_thread(look, state.settings, others | {server.setting: body.key})
    for model in tried.models:
        if model.setting == server.setting and model.wants_key:
            raise InvalidRequestError(model.refusal, param="key")
    state.model_keys[server.setting] = body.key


async def _found(state: AppState) -> Listing:
    return await asyncio.to_thread(look, state.settings, state.model_keys)


@router.get("/offers")
async def list_offers(state: State) -> dict[str, Any]:
    """The models to download, each with its progress; `fits`: this machine has the memory."""
    found = await asyncio.to_thread(state.downloads.standings, state.settings.models_dir)
    return {"data": [_shown(standing) for standing in found]}


@router.post("/get", status_code=202, responses=failures(404))
async def get_model(body: Named, state: State) -> None:
    """Download a model, resuming an earlier attempt; `/offers` reports the progress."""
    offer = offer_named(body.name)
    await asyncio.to_thread(state.downloads.start, offer, state.settings.models_dir)


@router.post("/get/cancel", status_code=204, responses=failures(404))
async def cancel(body: Named, state: State) -> None:
    """Cancel a download, and delete what it has fetched."""
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
