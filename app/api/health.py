"""`/health`, `/ready` and `/metrics`: for supervisors, hence without a key."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from app.container import State
from app.peer_link.status import PeerStatus

router = APIRouter(tags=["health"])


class Readiness(BaseModel):
    """Whether answers can be written, and with whom."""

    status: Literal["ready", "starting"]
    model: str
    peer: PeerStatus


@router.get("/health")
async def health() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/ready", responses={503: {"model": Readiness}})
async def ready(state: State, response: Response) -> Readiness:
    """200 once the model is loaded, else 503. The device is ready even without its peer."""
    generation = state.generation
    response.status_code = 200 if generation.ready else 503
    return Readiness(
        status="ready" if generation.ready else "starting",
        model=generation.model_name,
        peer=generation.peer_state,
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(state: State) -> Response:
    """Prometheus' text format."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)
