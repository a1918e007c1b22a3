"""Work and streams that end when their client leaves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, TypeVar

import orjson
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

log = logging.getLogger("dragon.answers")
T = TypeVar("T")
# Proxies and clients drop a connection that is silent for longer.
KEEP_ALIVE_S = 10.0


def named(kind: str, **fields: Any) -> bytes:
    """A named event, with fields of plain values and models."""
    data = orjson.dumps({"type": kind, **fields}, default=_plain)
    return f"event: {kind}\ndata: ".encode() + data + b"\n\n"


def _plain(value: Any) -> Any:
    assert isinstance(value, BaseModel), "events hold models and plain values"
    return value.model_dump(mode="json")


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled with `ClientDisconnect` if the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.create_task(client_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def client_gone(receive: Receive) -> None:
    """Return once the client disconnects; other messages are discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events; unlike a plain streaming response it stops its source at once.

    `source` is read by `frames`, which would not close it if they never began. While there is
    nothing to send, comments keep the connection alive.
    """

    media_type = "text/event-stream"
    comment = b": still working\n\n"

    def __init__(
        self, frames: AsyncGenerator[bytes, None], source: AsyncGenerator[Any, None]
    ) -> None:
        self.status_code = 200
        self.background = None
        self._frames = frames
        self._source = source
        self._sent = time.monotonic()
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_gone(receive, self._send(send))
        except ClientDisconnect:
            log.info("the client left in mid-stream")
        finally:
            await self._frames.aclose()
            await self._source.aclose()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        alive = asyncio.create_task(self._keep_alive(send))
        try:
            async for frame in self._frames:
                self._sent = time.monotonic()
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        finally:
            alive.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self, send: Send) -> None:
        while True:
            silent = time.monotonic() - self._sent
            if silent >= KEEP_ALIVE_S:
                self._sent = time.monotonic()
                await send({"type": "http.response.body", "body": self.comment, "more_body": True})
            else:
                await asyncio.sleep(KEEP_ALIVE_S - silent)
