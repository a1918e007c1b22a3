"""`dragon mcp`: the running device's `/mcp` over stdio, for assistants that start a program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from app.auth import api_key
from app.settings import Settings
from cli.running_device import DeviceClient
from cli.supervisor import address
from dragon.errors import ConfigurationError, DragonError

if TYPE_CHECKING:
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

    def forward(
        request: Callable[[ClientSession, Any], Awaitable[T]],
    ) -> Callable[..., Awaitable[T]]:
        async def handle(context: ServerRequestContext, params: Any) -> T:
            return await _ask(settings, context, lambda device: request(device, params))

        return handle

    return Server(
        "dragon",
        title="DRAGON",
        on_list_tools=forward(lambda device, params: device.list_tools(params=params)),
        on_call_tool=forward(lambda device, asked: device.call_tool(asked.name, asked.arguments)),
        on_list_resources=forward(lambda device, params: device.list_resources(params=params)),
        on_list_resource_templates=forward(
            lambda device, params: device.list_resource_templates(params=params)
        ),
        on_read_resource=forward(lambda device, params: device.read_resource(params.uri)),
    )


async def _ask(
    settings: Settings,
    context: ServerRequestContext,
    request: Callable[[ClientSession], Awaitable[T]],
) -> T:
    """The device's reply, in a session of its own: the device may have been restarted.

    Raises `MCPError`: the device's own, or one that says what to do if there is none.
    """
    from httpx2 import AsyncClient
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    url = f"http://{address(settings.host, settings.port)}/mcp"
    about = context.session.client_params
    try:
        # The protocol's own errors would not say that no device runs, or that the key is wrong.
        await asyncio.to_thread(DeviceClient(settings).get, "/v1/models")
        key = {"Authorization": f"Bearer {api_key(settings)}"}
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
