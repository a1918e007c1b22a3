"""The official client of the Model Context Protocol."""

from __future__ import annotations

import asyncio

from httpx2 import AsyncClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conformance.conftest import ANSWER, QUESTION, Service


def test_tools_over_http(device: Service) -> None:
    async def ask() -> str:
        async with (
            AsyncClient(headers={"Authorization": f"Bearer {device.key}"}, timeout=60) as http,
            Client(streamable_http_client(f"{device.url}/mcp", http_client=http)) as client,
        ):
            assert "ask" in [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("ask", {"question": QUESTION})
            return str(result.structured_content["text"])

    assert ANSWER in asyncio.run(ask())
