"""`/health`, `/ready` and `/metrics`: for supervisors, hence without the key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from app.state import State

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(state: State) -> Response:
    """200 once the model is loaded, else 503. The device is ready without its peer, too."""
    generation = state.generation
    body: dict[str, Any] = {
        "status": "ready" if generation.ready else "starting",
        "model": generation.model_name,
        "peer": asdict(generation.peer_state),
    }
    return Response(orjson.dumps(body), 200 if generation.ready else 503, None, "application/json")


@router.get("/metrics")
async def metrics(state: State) -> Response:
    """Prometheus' text format."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)
