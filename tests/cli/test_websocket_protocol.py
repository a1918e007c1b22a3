"""A WebSocket that is refused."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cli.server import server as make_server
from tests.app.conftest import wait_until
from tests.cli.test_main import free_port


async def refuse(socket: WebSocket) -> None:
    await socket.send_denial_response(PlainTextResponse("the key is missing", 401))


async def greet(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


def test_it_is_refused_with_status_and_reason_and_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    app = Starlette(routes=[WebSocketRoute("/closed", refuse), WebSocketRoute("/open", greet)])
    server = make_server(app, "127.0.0.1", port)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    wait_until(lambda: server.started)
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{port}/closed")
    with connect(f"ws://127.0.0.1:{port}/open") as socket:
        assert socket.recv() == "hello"
    server.should_exit = True
    thread.join()
    assert refused.value.response.status_code == 401
    assert refused.value.response.body == b"the key is missing"
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
