"""Routes for the browser only: the page, the sign-in, the status line."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from app.api.page.languages import texts
from app.api.page.parameters import DEFAULT_TEMPERATURE
from app.api_keys import ApiKey, May
from app.auth import COOKIE, SECURE_COOKIE, SESSION_S
from app.container import AppState, State
from app.documents.readers.sniff import ACCEPTED
from app.paths import packaged
from dragon.keys import is_loopback
from dragon.localizable import with_localizable

STATIC = packaged("static")
_BLANK = re.compile(r"\{([a-z.]+)\}")
_BY_A_PERSON = ("none", "same-origin")  # `Sec-Fetch-Site` if a person, or our page, opens it
_NO_STORE = {"Cache-Control": "no-store"}
# A browser revalidates each time, or after an update old parts would meet new ones.
_NEWEST = {"Cache-Control": "no-cache"}

router = APIRouter(include_in_schema=False)


class PageFiles(StaticFiles):
    """The page's files, which browsers revalidate before each use."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_NEWEST)
        return response


@router.get("/")
async def index(request: Request, state: State) -> Response:
    """The page for a signed-in browser, sign-in instructions for others."""
    if state.auth.session(request.headers) is None:
        return _sign_in_page(request, "sign.needed")
    return FileResponse(STATIC / "index.html", headers=_NEWEST)


@router.get("/service-worker.js")
async def service_worker() -> Response:
    """Served here, since a worker's scope is the paths below its own."""
    return FileResponse(STATIC / "service-worker.js", headers=_NEWEST, media_type="text/javascript")


@router.get("/manifest.webmanifest")
async def manifest() -> Response:
    """The web app manifest; files of every readable kind may be shared to the app."""
    found = json.loads((STATIC / "manifest.webmanifest").read_bytes())
    found["share_target"]["params"]["files"] = [{"name": "files", "accept": ACCEPTED}]
    return JSONResponse(found, headers=_NEWEST, media_type="application/manifest+json")


@router.get("/sign-in")
async def sign_in_by_link(
    request: Request, state: State, code: str = "", key: str = ""
) -> Response:
    """Exchange the code of a printed link, or the key itself, for a cookie.

    A prefetch must not use the link up, and no other site may sign a browser in as somebody else. A
    key may be anybody's, so its link is accepted only if the browser says that a person opened it.
    """
    if "prefetch" in request.headers.get("sec-purpose", ""):
        return Response(status_code=503, headers=_NO_STORE)
    came = request.headers.get("sec-fetch-site")
    if came not in (*_BY_A_PERSON, None) or (key and came is None):
        return _sign_in_page(request, "sign.elsewhere", 403)
    if code:
        # Codes cannot be guessed, so a wrong one does not count as an attempt.
        if state.auth.accepts_code(code):
            return _signed_in(request, state)
        if state.auth.session(request.headers) is not None:  # an old link, opened again
            return RedirectResponse("/", status_code=303, headers=_NO_STORE)
        return _sign_in_page(request, "sign.used")
    return _signed_in_by(key, request, state, "sign.wrong.link")


@router.post("/sign-in")
async def sign_in_by_key(request: Request, state: State) -> Response:
    """Exchange a key pasted into our own page for a cookie that scripts cannot read."""
    came, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    ours = origin is None or urlsplit(origin).netloc.lower() == request.url.netloc.lower()
    if came not in _BY_A_PERSON and not (came is None and ours):
        return _sign_in_page(request, "sign.elsewhere", 403)
    async with request.form(max_fields=4) as form:
        key = form.get("key")
    typed = key.strip() if isinstance(key, str) else ""
    return _signed_in_by(typed, request, state, "sign.wrong.key")


@router.post("/api/sign-out")
async def sign_out(request: Request, state: State) -> Response:
    """End this browser's session."""
    state.auth.sessions.end(state.auth.cookie(request.headers))
    response = Response(status_code=204, headers=_NO_STORE)
    response.delete_cookie(COOKIE)
    return response


@router.get("/api/status")
async def status(request: Request, state: State) -> dict[str, Any]:
    """The model, its default way of answering, the peer, the documents, and accepted file types.

    `household`: some keys have documents of their own, so there is someone to share with.
    `signs_out`: the caller has signed in, or others may use this browser. The printed link of a
    device that only its own machine reaches does not count as a sign-in.
    """
    settings, generation = state.settings, state.generation
    session = state.auth.session(request.headers)
    named = session is not None and session.key is not None
    open_to_others = settings.api_key is not None or not is_loopback(settings.host)
    household = bool(state.auth.owners())
    return {
        "model": generation.model_name,
        "quotes": generation.quotes,
        "context_length": generation.context_length,
        "vocabulary": generation.tokenizer.vocab_size,
        "defaults": {
            "mode": settings.aggregation,
            "cloud": settings.cloud,
            "top_k": generation.top_k,
            "temperature": DEFAULT_TEMPERATURE,
        },
        "peer": with_localizable(asdict(generation.peer_state)),
        "documents": await state.documents.count(),
        "accepted": ACCEPTED,
        "household": household,
        "signs_out": named or household or open_to_others,
    }


def _signed_in_by(given: str, request: Request, state: AppState, refusal: str) -> Response:
    """Sign a browser in by the device's own key or a named one, which must have full access."""
    key = state.auth.named(given)
    if key is not None and key.may is not May.ALL:
        return _sign_in_page(request, "sign.scope", 403)
    # Counted apart, so that links opened by a browser, such as images, lock nobody out of the form.
    by = f"{request.method} {request.client.host if request.client else 'nowhere'}"
    if state.auth.attempts.exceeded(by):
        return _sign_in_page(request, "sign.slow", 429)
    if key is None and not state.auth.accepts_key(given):
        state.auth.attempts.failed(by)
        return _sign_in_page(request, refusal)
    return _signed_in(request, state, key)


def _signed_in(request: Request, state: AppState, key: ApiKey | None = None) -> Response:
    response = RedirectResponse("/", status_code=303, headers=_NO_STORE)
    secure = request.url.scheme == "https"
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        state.auth.sessions.begin(key),
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return response


def _sign_in_page(request: Request, reason: str, status: int = 401) -> Response:
    """The page with the key's field, in the browser's language; `reason` is the key of a text."""
    words = texts(request.headers.get("accept-language", ""))
    # The host is on the allow-list, so the address can go into the page unescaped.
    origin = f"{request.url.scheme}://{request.url.netloc}"
    filled = words | {"origin": origin, "reason": words[reason]}
    page = _BLANK.sub(lambda blank: filled[blank[1]], (STATIC / "sign-in.html").read_text())
    # So that the form says where it is from; other origins are told nothing.
    headers = {**_NO_STORE, "Referrer-Policy": "same-origin"}
    return HTMLResponse(page, status_code=status, headers=headers)
