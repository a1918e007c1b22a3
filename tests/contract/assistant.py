"""An assistant that speaks MCP with a device over HTTP: the SDK's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from httpx2 import AsyncClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

ABOUT = Implementation(name="assistant", version="1.2")


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], mode: str = "auto", about: Implementation = ABOUT
) -> AsyncIterator[Client]:
    """One that is connected to the device at `url`."""
    async with (
        AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http), client_info=about, mode=mode
        ) as client,
    ):
        yield client
