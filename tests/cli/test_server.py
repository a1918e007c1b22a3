"""The server of both services, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.applications import Starlette

from cli.server import server as make_server
from tests.app.conftest import wait_until
from tests.cli.test_main import free_port


def test_a_server_says_where_it_listens(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    server = make_server(Starlette(), "127.0.0.1", port)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    with caplog.at_level("INFO", "dragon"):
        thread.start()
        wait_until(lambda: server.started)
        server.should_exit = True
        thread.join()
    assert caplog.messages == [f"ready at http://127.0.0.1:{port}"]
