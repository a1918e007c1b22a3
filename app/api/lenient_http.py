"""Leniency towards HTTP clients: HEAD, a trailing slash, compressed bodies.

Also collects the names of a request's unknown parameters: see `app.api.openai.spellings`.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_response
from app.api.openai.spellings import HEADER, IGNORED, header
from app.problems import Problem

_PIECE = 1 << 16  # bytes to decompress at a time
_GZIP = zlib.MAX_WBITS | 16
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
_ROUTES = (
    "/v1/", "/api/", "/mcp/", "/tokenize/", "/detokenize/", "/health/", "/ready/", "/metrics/",
)  # fmt: skip


class LenientHttp:
    """The outermost layer, so that all others see the same request; `strict` collects no names."""

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
            # After the body only the client's leaving can come, perhaps never.
            return await anext(pieces, None) or await receive()

        return await self._app(scope, receiving, sending)


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
                piece, rest = rest, b""  # not JSON either, which gets its own error
            else:
                rest = packed.unconsumed_tail
            yield {"type": "http.request", "body": piece, "more_body": True}
        if not more:
            yield {"type": "http.request", "body": b"", "more_body": False}
