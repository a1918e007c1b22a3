"""Clients that do not get on with their requests."""

from __future__ import annotations

import asyncio
import http.client
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import cli.server
from cli.server import MAX_HEAD_BYTES, BoundedHttp
from cli.server import server as make_server
from tests.app.conftest import wait_until
from tests.cli.test_main import free_port


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def port() -> Iterator[int]:
    number = free_port()
    app = Starlette(routes=[Route("/", length, methods=["GET", "POST"])])
    server = make_server(app, "127.0.0.1", number)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    wait_until(lambda: server.started)
    yield number
    server.should_exit = True
    thread.join()


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
    count = min(1200, most // 4)
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
