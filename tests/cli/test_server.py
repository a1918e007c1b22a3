"""The server of both services, in a thread: clients that do not get on, and refused WebSockets."""

from __future__ import annotations

import asyncio
import http.client
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import cli.server
from cli.server import MAX_HEAD_BYTES, BoundedHttp
from harness.services import free_port
from tests.app.conftest import wait_until


@contextmanager
def serving(app: Starlette) -> Iterator[int]:
    """Serve the app; yields its port."""
    port = free_port()
    server = cli.server.server(app, "127.0.0.1", port)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield port
    finally:
        server.should_exit = True
        thread.join()


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def port() -> Iterator[int]:
    with serving(Starlette(routes=[Route("/", length, methods=["GET", "POST"])])) as port:
        yield port


def test_a_server_says_where_it_listens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "dragon"), serving(Starlette()) as port:
        pass
    assert caplog.messages == [f"ready at http://127.0.0.1:{port}"]


def test_freed_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.server, "TRIM_S", 0.1)

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() >> 20

    blocks = [bytearray(b"1") * (48 << 10) for _ in range(4000)]
    full = resident()
    between = blocks[::50]  # so that the heap cannot shrink from its end
    blocks.clear()
    with serving(Starlette()):
        wait_until(lambda: resident() < full - 150)
    assert len(between) == 80


def connected(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(sent)
    return client


def cut(client: socket.socket) -> None:
    """Return once the server has hung up."""
    client.settimeout(30)
    with suppress(ConnectionResetError):
        while client.recv(1000):
            pass


def asked(port: int) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
    ],
)
def test_who_does_not_get_on_is_hung_up_on(
    port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    with monkeypatch.context() as hasty:
        hasty.setattr(cli.server, "HEAD_S", 0.05)
        hasty.setattr(cli.server, "BODY_S", 0.05)
        with connected(port, sent) as client:
            cut(client)
    assert asked(port) == 200


def test_a_second_request_on_a_connection_may_not_dawdle_either(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.server, "HEAD_S", 1.0)  # enough for the first one to be sent
    with connected(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET / HT")
        cut(client)


def test_a_head_without_end_is_refused(port: int) -> None:
    with connected(port, b"GET / HTTP/1.1\r\nHost: a\r\nX: ") as client:
        client.sendall(b"a" * (MAX_HEAD_BYTES + 1))
        assert client.recv(1000).startswith(b"HTTP/1.1 400")


def test_however_many_wait_others_are_served(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(300, most // 4)
    limit = lambda _: (count, hard)  # noqa: E731 - half of them may wait
    monkeypatch.setattr(cli.server.resource, "getrlimit", limit)
    with ExitStack() as clients:
        for number in range(count):
            sent = b"GET / HTTP/1.1\r\n" if number % 2 else b""
            clients.enter_context(connected(port, sent))
        assert asked(port) == 200
        wait_until(lambda: len(BoundedHttp._waiting) <= count // 2)
        assert asked(port) == 200
    wait_until(lambda: not BoundedHttp._waiting)


async def refuse(socket: WebSocket) -> None:
    await socket.send_denial_response(PlainTextResponse("the key is missing", 401))


async def greet(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


def test_a_websocket_is_refused_with_status_and_reason_and_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    routes = [WebSocketRoute("/closed", refuse), WebSocketRoute("/open", greet)]
    with serving(Starlette(routes=routes)) as port:
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{port}/closed")
        with connect(f"ws://127.0.0.1:{port}/open") as socket:
            assert socket.recv() == "hello"
    assert refused.value.response.status_code == 401
    assert refused.value.response.body == b"the key is missing"
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
