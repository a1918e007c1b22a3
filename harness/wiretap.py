"""A WebSocket proxy between a device and its peer that records every frame of the device."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dragon.link import batching, control, registry
from dragon.link.control import MAX_CONTROL_BYTES
from harness.background_loop import background_loop

_FIRST_PING = 1 << 40  # numbers that neither side's own pings reach
_SETTLED_S = 60.0


@dataclass
class Tap:
    """What the device sent, in order. The device connects to `port` for its peer.

    `bundles` counts the messages of either side that carry several frames.
    """

    loop: asyncio.AbstractEventLoop
    port: int = 0
    sent: list[str | bytes] = field(default_factory=list)
    bundles: Counter[str] = field(default_factory=Counter)
    connections: set[ServerConnection] = field(default_factory=set)
    answered: dict[str | bytes, asyncio.Event] = field(default_factory=dict)

    def cut(self) -> None:
        """Abort all connections; the device reconnects."""
        asyncio.run_coroutine_threadsafe(self._cut(), self.loop).result()

    def settle(self) -> None:
        """Wait until everything that the device has sent so far is recorded."""
        asyncio.run_coroutine_threadsafe(self._settle(), self.loop).result(_SETTLED_S)

    async def _cut(self) -> None:
        for device in list(self.connections):
            device.transport.abort()

    async def _settle(self) -> None:
        # A device answers a ping behind all that it sent before.
        for device in list(self.connections):
            number = _FIRST_PING + len(self.answered)
            answered = self.answered[registry.encode(control.Pong(number=number))] = asyncio.Event()
            with suppress(ConnectionClosed):
                await device.send(registry.encode(control.Ping(number=number)))
            done = [asyncio.ensure_future(each) for each in (answered.wait(), device.wait_closed())]
            await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.cancel()

    def took(self, message: str | bytes) -> None:
        """Record the frames of a message of the device, except replies to our own pings."""
        for frame in self.frames("device", message):
            if frame in self.answered:
                self.answered[frame].set()
            else:
                self.sent.append(frame)

    def frames(self, sender: str, message: str | bytes) -> Sequence[str | bytes]:
        """The frames of a message."""
        frames = batching.split(message)
        self.bundles[sender] += len(frames) > 1
        return frames


@contextmanager
def wiretap(peer_port: int) -> Iterator[Tap]:
    """A tap in front of a peer."""
    with background_loop() as loop:
        tap = Tap(loop)
        server = asyncio.run_coroutine_threadsafe(_open(tap, peer_port), loop).result()
        try:
            yield tap
        finally:
            asyncio.run_coroutine_threadsafe(_close(server), loop).result()


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
                    tap.took(frame)
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
