"""What only the browser needs: the page, the sign-in, the status line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from app.api.page.parameters import DEFAULT_TEMPERATURE
from app.auth import COOKIE
from app.container import State
from app.packaged import packaged

STATIC = packaged("static")
_NO_STORE = {"Cache-Control": "no-store"}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index(request: Request, state: State) -> Response:
    """The page for a signed-in browser, for others how to sign in."""
    if not state.auth.has_session(request.headers):
        return _sign_in_page(request, "This browser is not signed in.")
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/sign-in")
async def sign_in(request: Request, state: State, key: str = "") -> Response:
    """Exchange the key in the printed link for a cookie that scripts cannot read."""
    if not state.auth.accepts_key(key):
        return _sign_in_page(request, "This link does not fit the key of this device.")
    response = RedirectResponse("/", status_code=303, headers=_NO_STORE)
    response.set_cookie(
        COOKIE,
        state.auth.session,
        max_age=30 * 24 * 3600,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.get("/api/status")
async def status(state: State) -> dict[str, Any]:
    """The model, how it answers unless told otherwise, the link to the peer, the documents."""
    return {
        "model": state.generation.model_name,
        "context_length": state.generation.context_length,
        "vocabulary": state.generation.tokenizer.vocab_size,
        "defaults": {
            "mode": state.settings.aggregation,
            "cloud": state.settings.cloud,
            "top_k": state.settings.top_k,
            "temperature": DEFAULT_TEMPERATURE,
        },
        "peer": asdict(state.generation.peer_state),
        "documents": await state.documents.count(),
    }


def _sign_in_page(request: Request, reason: str) -> Response:
    # The host is on the allow-list, so the address can go into the page as it stands.
    origin = f"{request.url.scheme}://{request.url.netloc}"
    page = (STATIC / "sign-in.html").read_text()
    page = page.replace("{origin}", origin).replace("{reason}", reason)
    return HTMLResponse(page, status_code=401, headers=_NO_STORE)
