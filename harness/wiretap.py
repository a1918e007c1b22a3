"""A WebSocket between a device and its peer that passes every frame on and writes it down."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dragon.link import batching
from dragon.link.control import MAX_CONTROL_BYTES


@dataclass
class Tap:
    """What the device sent, in order; `port` is where it finds its peer.

    `bundles` counts the messages of either side that carry several frames.
    """

    port: int = 0
    sent: list[str | bytes] = field(default_factory=list)
    bundles: Counter[str] = field(default_factory=Counter)
    connections: set[ServerConnection] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Break the connections that there are; the device makes a new one."""
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self._cut(), self.loop).result()

    async def _cut(self) -> None:
        for device in list(self.connections):
            device.transport.abort()

    def frames(self, sender: str, message: str | bytes) -> Sequence[str | bytes]:
        """What a message carries."""
        frames = batching.split(message)
        self.bundles[sender] += len(frames) > 1
        return frames


@contextmanager
def wiretap(peer_port: int) -> Iterator[Tap]:
    """A tap before a peer."""
    tap = Tap()
    tap.loop = loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_open(tap, peer_port), loop).result()
    try:
        yield tap
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _open(tap: Tap, peer_port: int) -> Server:
    async def handle(device: ServerConnection) -> None:
        assert device.request is not None
        key = {"Authorization": device.request.headers["Authorization"]}
        address = f"ws://127.0.0.1:{peer_port}{device.request.path}"
        tap.connections.add(device)
        async with connect(
            address,
            additional_headers=key,
            compression=None,
            max_size=MAX_CONTROL_BYTES,
            ping_interval=None,
        ) as peer:
            back = asyncio.create_task(_pass_on(tap, peer, device))
            with suppress(ConnectionClosed):
                async for frame in device:
                    tap.sent.extend(tap.frames("device", frame))
                    await peer.send(frame)
            back.cancel()
        tap.connections.discard(device)

    server = await serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None)
    tap.port = next(iter(server.sockets)).getsockname()[1]
    return server


async def _pass_on(tap: Tap, peer: ClientConnection, device: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        async for frame in peer:
            tap.frames("peer", frame)
            await device.send(frame)
    await device.close()


async def _close(server: Server) -> None:
    server.close(close_connections=True)
    await server.wait_closed()
