"""A peer of a few lines: it greets, answers pings, and keeps what else it is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from dragon.link import control, registry
from dragon.link.address import PeerAddress
from dragon.sampling.role import Role

VOCABULARY = 100


class ToyPeer:
    """Listens on loopback. `load` is what its pongs say, `delay_s` how late they are.

    It greets truly unless it has another `greeting`, and sends devices `elsewhere` if that is set.
    With a `fault`, it answers a ping with that.
    """

    def __init__(self, load: float = 0.0, delay_s: float = 0.0, refusal: str = "") -> None:
        self.load = load
        self.delay_s = delay_s
        self.refusal = refusal
        self.greeting: str | bytes | None = None
        self.elsewhere: str | None = None
        self.fault: control.Fault | None = None
        self.got: list[tuple[int, registry.Message]] = []
        self.connections: set[ServerConnection] = set()
        self._server: Server | None = None

    @property
    def address(self) -> PeerAddress:
        assert self._server is not None
        port = next(iter(self._server.sockets)).getsockname()[1]
        return PeerAddress(f"ws://127.0.0.1:{port}/v1/link")

    def opened(self) -> list[int]:
        """The streams it was sent a query for."""
        return [stream for stream, message in self.got if isinstance(message, control.Fetch)]

    async def send(self, message: registry.Message, stream: int = registry.LINK) -> None:
        for connection in tuple(self.connections):
            await connection.send(registry.encode(message, stream))

    async def hang_up(self) -> None:
        """End its connections."""
        for connection in tuple(self.connections):
            await connection.close()

    async def kill(self) -> None:
        """End without a goodbye; nobody listens here any more."""
        assert self._server is not None
        self._server.close(close_connections=False)
        for connection in tuple(self.connections):
            connection.transport.abort()

    async def accept(self, connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await connection.recv()
            await connection.send(self.greeting or registry.encode(control.Hello()))
            self.connections.add(connection)
            async for frame in connection:
                stream, message = registry.decode(frame, Role.DEVICE, VOCABULARY)
                if isinstance(message, control.Ping):
                    await asyncio.sleep(self.delay_s)
                    pong = control.Pong(number=message.number, load=self.load)
                    await connection.send(registry.encode(self.fault or pong))
                elif not isinstance(message, control.Pong):
                    self.got.append((stream, message))
        self.connections.discard(connection)

    def answer(self, connection: ServerConnection, _: Request) -> Response | None:
        if self.elsewhere is not None:
            reply = connection.respond(302, "over there")
            reply.headers["Location"] = self.elsewhere
            return reply
        return connection.respond(503, self.refusal) if self.refusal else None


@asynccontextmanager
async def toy_peer(
    load: float = 0.0, delay_s: float = 0.0, refusal: str = ""
) -> AsyncIterator[ToyPeer]:
    peer = ToyPeer(load, delay_s, refusal)
    async with serve(peer.accept, "127.0.0.1", 0, process_request=peer.answer) as server:
        peer._server = server
        yield peer


async def until(condition: Callable[[], object]) -> None:
    """Return once it holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        await asyncio.sleep(0.005)
