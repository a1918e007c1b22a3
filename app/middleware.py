"""ASGI middleware: request ids, security headers, leniency, access control, body limit."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
import uuid
import zlib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_response
from app.api.openai.field_types import HEADER, IGNORED, header
from app.api_keys import KEY, ApiKey, Credential, May
from app.auth import given_key, needs_key
from app.container import AppState
from app.generation.admission import CALLS_FOR_ONE, MOST_CALLS, refusal
from app.owners import act_as
from app.problems import Problem, problem, reported
from dragon.errors import AuthenticationError
from dragon.inference.fairness import CALLER, HOUSEHOLD, Household

log = logging.getLogger("dragon.http")

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_PROBES = frozenset({"/health", "/ready", "/metrics"})
_CHATS = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"})
_ANSWERS = _CHATS | {"/v1/completions", "/api/generate"}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_NOT_PERMITTED = "not_permitted"
_REVOKED_S = 1.0
_POLICY_VIOLATION = 1008
_MAY = {May.ASK: "asking", May.UPLOAD: "asking and adding documents"}
_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104
_PIECE = 1 << 16  # bytes to decompress at a time
_GZIP = zlib.MAX_WBITS | 16
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
_ROUTES = (
    "/v1/", "/api/", "/mcp/", "/tokenize/", "/detokenize/", "/health/", "/ready/", "/metrics/",
)  # fmt: skip


class RequestContext:
    """The outermost layer: request id in and out, security headers, log line, unexpected errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        status, started = 0, time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"] in _CHATS and status == 200:
                    state: AppState = scope["app"].state.dragon
                    if not state.generation.tokenizer.chats:
                        headers["X-Dragon-Chat-Template"] = "none"
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            found = reported(error, f"request {request_id}")
            if status or scope["type"] == "websocket":
                raise  # too late to reply: the server cuts the connection
            await error_response(scope, found)(scope, receive, send_with_headers)
        finally:
            if scope["type"] == "http":
                self._record(scope, request_id, status, time.perf_counter() - started)

    @staticmethod
    def _record(scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"].isalpha() else "OTHER"
        state: AppState = scope["app"].state.dragon
        state.metrics.request(method if route != "none" else "ANY", route, status, seconds)
        level = logging.DEBUG if scope["path"] in _PROBES else logging.INFO
        # Never the query: sign-in links carry the key there.
        line = (method, scope["path"], status, 1000 * seconds, request_id)
        log.log(level, "%s %s %d %.0f ms %s", *line)


class LenientHttp:
    """Leniency towards HTTP clients: HEAD, a trailing slash, compressed bodies.

    It wraps every layer that reads the request, so that all see the same one. Unless
    `strict`, it also collects the names of unknown parameters: see `app.api.openai.field_types`.
    """

    def __init__(self, app: ASGIApp, *, strict: bool) -> None:
        self._app = app
        self._strict = strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        ignored: list[str] | None = None if self._strict else []
        IGNORED.set(ignored)
        outer, scope = scope, dict(scope)
        try:
            await self._read(scope, receive, send, ignored)
        finally:
            if "route" in scope:  # for request counters
                outer["route"] = scope["route"]

    async def _read(
        self, scope: Scope, receive: Receive, send: Send, ignored: list[str] | None
    ) -> None:
        path: str = scope["path"]
        if path.startswith(_ROUTES) and path.endswith("/"):
            scope["path"] = path.rstrip("/")
        head = scope["method"] == "HEAD"
        if head:
            scope["method"] = "GET"

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and ignored:
                MutableHeaders(scope=message)[HEADER] = header(ignored)
            elif message["type"] == "http.response.body" and head:
                message = {**message, "body": b""}
            await send(message)

        packed = Headers(scope=scope).get("content-encoding", "").strip().lower()
        if packed in ("", "identity"):
            return await self._app(scope, receive, sending)
        if packed not in _WINDOWS:
            found = Problem(
                415, "A body may be compressed with gzip or deflate.", code="unsupported_encoding"
            )
            return await error_response(scope, found)(scope, receive, sending)
        dropped = (b"content-encoding", b"content-length")
        scope["headers"] = [each for each in scope["headers"] if each[0] not in dropped]
        pieces = _unpacked(receive, _WINDOWS[packed])

        async def receiving() -> Message:
            # After the body only a disconnect can follow, perhaps never.
            return await anext(pieces, None) or await receive()

        return await self._app(scope, receiving, sending)


class AccessControl:
    """Access control: the Host must be ours; paths that need it require a key or the cookie.

    The Host check prevents DNS rebinding; the Origin check keeps out pages of other origins on this
    machine, which share the cookie because cookies ignore ports.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._hosts = _LOCAL_HOSTS | {host.lower()}
        self._any_address = host in _WILDCARDS
        self._asking = Counter[str]()  # calls for answers, including waiting ones, by household

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (refusal := self._refusal(scope)):
            return await error_response(scope, refusal)(scope, receive, send)
        answers = scope["type"] == "http" and scope["path"] in _ANSWERS
        household = HOUSEHOLD.get().name
        self._asking[household] += answers
        try:
            if (key := scope.get(KEY)) is None:
                return await self._app(scope, receive, send)
            return await self._while_valid(key, scope, receive, send)
        finally:
            self._asking[household] -= answers

    async def _while_valid(self, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a named key until the key is revoked."""
        state: AppState = scope["app"].state.dragon
        work = asyncio.ensure_future(self._app(scope, receive, send))
        try:
            while not (await asyncio.wait({work}, timeout=_REVOKED_S))[0]:
                if not state.auth.exists(key):
                    break
            else:
                return await work
        finally:
            work.cancel()
            await asyncio.wait({work})
        state.background_runs.stop_of(key.owner)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        raise AuthenticationError("This API key was revoked.")

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return Problem(
                400,
                "This Host header is not served here; call the device by the address it listens "
                "on, or set DRAGON_HOST.",
                code="invalid_host",
            )
        if not needs_key(scope["path"]):
            return None
        state: AppState = scope["app"].state.dragon
        try:
            credential = state.auth.check(headers)
        except AuthenticationError as error:
            return problem(error)
        if not credential.permits(scope.get("method", ""), scope["path"]):
            return Problem(403, _not_permitted(credential), "permission_error", code=_NOT_PERMITTED)
        keyed = given_key(headers) is not None
        by = f"key {credential.name}" if keyed else f"page {credential.name}".strip()
        host, _ = scope.get("client") or ("", 0)
        HOUSEHOLD.set(Household(by))
        CALLER.set(host)
        act_as(credential.owner)
        scope[KEY] = credential.key
        crowded = self._asking.total() >= MOST_CALLS or self._asking[by] >= CALLS_FOR_ONE
        if scope["path"] in _ANSWERS and crowded:
            return problem(refusal())  # before its body is read
        if keyed or scope.get("method") in _SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != hosts[0].lower():
            return Problem(
                403,
                "The cookie is only good for the device's own page; other callers use the API key.",
                "permission_error",
                code="cross_origin",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in self._hosts:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        # Bound to every address, we cannot know our names; but an IP address cannot be rebound.
        return self._any_address


_DRAIN_S = 10.0
_DRAINED = 16  # how much of a refused body is read, in multiples of the limit


class BodyLimit:
    """Refuses a body over the limit: by its declared length, else once that much was read.

    `unbounded` are the paths whose routes read the body themselves, with their own limits.
    """

    def __init__(self, app: ASGIApp, limit: int, unbounded: frozenset[str]) -> None:
        self._app = app
        self._limit = limit
        self._unbounded = unbounded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._unbounded:
            return await self._app(scope, receive, send)
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._limit:
            return await self._refuse(scope, receive, send, more=True)
        seen, more, over, answered = 0, True, False, False

        async def counted() -> Message:
            nonlocal seen, more, over
            message = await receive()
            more = message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > self._limit:
                over = True
                raise _BodyTooLargeError
            return message

        async def watched(message: Message) -> None:
            nonlocal answered
            # Whatever a parser makes of the truncated body, the client gets the reason.
            if answered or not over:
                answered = True
                await send(message)

        try:
            await self._app(scope, counted, watched)
        except _BodyTooLargeError:
            if answered:
                raise
        if over and not answered:
            await self._refuse(scope, receive, send, more=more)
        return None

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, *, more: bool) -> None:
        # A connection closed with unread bytes is reset, and the reason may be lost with it.
        left = _DRAINED * self._limit
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                while more and left > 0:
                    part = await receive()
                    left -= len(part.get("body", b""))
                    more = part.get("more_body", False)
        message = f"The body is over the limit of {self._limit // 2**20} MiB."
        found = Problem(413, message, code="request_too_large")
        await error_response(scope, found)(scope, receive, send)


class _BodyTooLargeError(Exception):
    """The body exceeded its limit while it was read."""


async def _unpacked(receive: Receive, window: int) -> AsyncGenerator[Message, None]:
    """A body's messages, decompressed, each of them small; invalid data is passed on as it is."""
    packed = zlib.decompressobj(window)
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            yield message
            continue
        more = message.get("more_body", False)
        rest = message.get("body", b"")
        while rest:
            try:
                piece = packed.decompress(rest, _PIECE)
            except zlib.error:
                piece, rest = rest, b""  # not JSON either: the parser reports it
            else:
                rest = packed.unconsumed_tail
            yield {"type": "http.request", "body": piece, "more_body": True}
        if not more:
            yield {"type": "http.request", "body": b"", "more_body": False}


def _not_permitted(credential: Credential) -> str:
    if credential.may is May.ALL:
        return "This concerns the whole device: it is for the device's own key."
    may = _MAY[credential.may]
    return f"The key {credential.name} is for {may} only; `dragon key add` makes one for more."
