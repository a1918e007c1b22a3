"""`/mcp`: the Model Context Protocol over HTTP, for programs with a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from app.api_keys import KEY, ApiKey
from app.container import AppState

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MISSING = "The Model Context Protocol needs the extra mcp: pip install 'dragon-rag[mcp]'"
_SESSIONS = 64  # per key, so that no key takes up those of others
_IDLE_S = 1800.0


class McpEndpoint:
    """The ASGI app of the route. The SDK takes seconds to load, so the first request loads it.

    A session belongs to the key that began it: each key has a manager of its own.
    """

    def __init__(self) -> None:
        self._starting = asyncio.Lock()
        self._ended = asyncio.Event()
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: AppState = scope["app"].state.dragon
        key: ApiKey | None = scope.get(KEY)
        name = "" if key is None else key.digest
        async with self._starting:
            if name not in self._managers:
                self._managers[name] = await self._start(state)
        await self._managers[name].handle_request(scope, receive, send)

    async def close(self) -> None:
        """End the sessions."""
        self._ended.set()
        await asyncio.gather(*self._tasks)

    async def _start(self, state: AppState) -> StreamableHTTPSessionManager:
        try:
            build = await asyncio.to_thread(_load)
        except ImportError:
            raise HTTPException(501, MISSING) from None
        manager = build(state)
        started = asyncio.Event()
        # Its sessions belong to the task that opened it, which must outlive a request.
        self._tasks.append(asyncio.create_task(self._run(manager, started), name="mcp"))
        await started.wait()
        return manager

    async def _run(self, manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
        async with manager.run():
            started.set()
            await self._ended.wait()


def _load() -> Callable[[AppState], StreamableHTTPSessionManager]:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from app.api.mcp.server import build

    def manager(state: AppState) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            build(state), max_sessions=_SESSIONS, session_idle_timeout=_IDLE_S
        )

    return manager
