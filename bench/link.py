"""An emulated network: a TCP relay in user space that delays, jitters, cuts and swallows bytes.

Bytes keep their order, as on TCP; what arrives together leaves together after the delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

_READ_BYTES = 64 * 1024
JITTER = 0.2


@dataclass(frozen=True)
class Network:
    """Delay both ways together, in seconds, and the share of it that varies at random."""

    rtt_s: float = 0.0
    jitter: float = JITTER


class Relay:
    """Relays one port to another on loopback, on a thread and an event loop of its own.

    `pause` swallows nothing but delivers nothing either (a black hole that may heal); `cut` aborts
    every connection at once; `limit` cuts after so many more bytes have come up from the client.
    """

    def __init__(self, target_port: int, network: Network, seed: int = 0) -> None:
        self._target = target_port
        self.network = network
        self._chance = random.Random(seed)
        self._open = asyncio.Event()
        self._open.set()
        self._budget: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def pause(self) -> None:
        """Deliver nothing until `resume`; connections stay open."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def resume(self) -> None:
        """Deliver what was held back, and go on."""
        self._loop.call_soon_threadsafe(self._open.set)

    def cut(self) -> None:
        """Abort every connection; new ones are taken."""
        self._loop.call_soon_threadsafe(self._abort)

    def limit(self, up_bytes: int) -> None:
        """Cut once so many more bytes have gone up: inside a frame, say."""
        self._budget = up_bytes

    def close(self) -> None:
        """Stop listening, and end the thread."""
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._abort)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    def _run(self, work: object) -> asyncio.Server:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)  # type: ignore[arg-type]

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, up_writer}
        for source, sink, upward in ((reader, up_writer, True), (up_reader, writer, False)):
            task = asyncio.create_task(self._pump(source, sink, upward=upward))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, upward: bool
    ) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        deliver = asyncio.create_task(self._deliver(queue, sink))
        due = 0.0
        with contextlib.suppress(OSError):
            while data := await source.read(_READ_BYTES):
                if upward and self._budget is not None:
                    data = data[: self._budget]
                    self._budget -= len(data)
                    if self._budget == 0:
                        sink.write(data)
                        self._budget = None
                        self._abort()
                        break
                delay = self.network.rtt_s / 2
                delay *= 1 + self.network.jitter * self._chance.uniform(-1, 1)
                due = max(due, time.monotonic() + delay)
                queue.put_nowait((due, data))
        queue.put_nowait((due, b""))
        await deliver

    async def _deliver(
        self, queue: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await self._open.wait()
                if not data:
                    break
                sink.write(data)
                await sink.drain()
        sink.close()


@contextlib.contextmanager
def relay(target_port: int, network: Network | None = None, seed: int = 0) -> Iterator[Relay]:
    """A relay for a block of code."""
    running = Relay(target_port, network or Network(), seed)
    try:
        yield running
    finally:
        running.close()
