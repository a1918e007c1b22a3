"""`dragon mcp`: the running device's `/mcp` over stdio, for assistants that start a program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app.auth import api_key
from app.settings import Settings
from cli.running_device import DeviceClient
from cli.supervisor import address
from dragon.errors import ConfigurationError, DragonError

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.session import ClientSession
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

T = TypeVar("T")


def mcp() -> None:
    """Serve the device's documents over stdio to an assistant that speaks MCP."""
    try:
        import mcp as _sdk  # noqa: F401
    except ImportError:
        from app.api.mcp.endpoint import MISSING  # late: it imports torch

        raise ConfigurationError(MISSING) from None
    asyncio.run(_serve(Settings.read()))


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    server = bridge(settings)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def bridge(settings: Settings) -> Server[Any]:
    """A server that forwards every request to the device, under the client's name."""
    from mcp.server.lowlevel import Server

    device = _Device(settings)
    return Server(
        "dragon",
        title="DRAGON",
        on_list_tools=device.list_tools,
        on_call_tool=device.call_tool,
        on_list_resources=device.list_resources,
        on_list_resource_templates=device.list_templates,
        on_read_resource=device.read_resource,
    )


@dataclass(frozen=True)
class _Device:
    """Requests to the device: one session each, so that a restarted device does not matter."""

    settings: Settings

    async def list_tools(
        self, context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await self._ask(context, lambda device: device.list_tools(params=params))

    async def call_tool(
        self, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        name, arguments = params.name, params.arguments
        return await self._ask(context, lambda device: device.call_tool(name, arguments))

    async def list_resources(
        self, context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await self._ask(context, lambda device: device.list_resources(params=params))

    async def list_templates(
        self, context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await self._ask(
            context, lambda device: device.list_resource_templates(params=params)
        )

    async def read_resource(
        self, context: ServerRequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._ask(context, lambda device: device.read_resource(params.uri))

    async def _ask(
        self, context: ServerRequestContext, request: Callable[[ClientSession], Awaitable[T]]
    ) -> T:
        """Raises `MCPError`: the device's own, or one that says what to do if there is none."""
        from httpx2 import AsyncClient
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared.exceptions import MCPError
        from mcp_types import INTERNAL_ERROR

        url = f"http://{address(self.settings.host, self.settings.port)}/mcp"
        key = {"Authorization": f"Bearer {api_key(self.settings)}"}
        about = context.session.client_params
        try:
            # The protocol's own errors would not say that no device runs, or that the key is wrong.
            await asyncio.to_thread(DeviceClient(self.settings).get, "/v1/models")
            async with (
                AsyncClient(headers=key, timeout=None) as http,
                Client(
                    streamable_http_client(url, http_client=http),
                    client_info=None if about is None else about.client_info,
                    mode="legacy",
                ) as client,
            ):
                return await request(client.session)
        except DragonError as error:
            raise MCPError(INTERNAL_ERROR, error.message) from None
        except ExceptionGroup as group:
            if (refused := group.subgroup(MCPError)) is not None:
                raise _first(refused) from None
            raise MCPError(INTERNAL_ERROR, "The device ended the connection.") from group


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
