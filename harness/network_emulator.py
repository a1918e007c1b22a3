"""An emulated network: a TCP relay in user space that delays, jitters, limits, cuts and stalls.

Bytes keep their order, as on TCP; what arrives together leaves together after the delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from harness.background_loop import background_loop

T = TypeVar("T")
_READ_BYTES = 64 * 1024
JITTER = 0.2
# Paper, section 7.3: a sine of period 20 pi seconds.
_SINE_RADIANS_PER_S = 0.1


class Jitter(StrEnum):
    """How the latency varies by up to the share `JITTER`: not, randomly per chunk, or as a sine."""

    NONE = "none"
    RANDOM = "random"
    SINE = "sine"


@dataclass(frozen=True)
class Network:
    """A network's behaviour from the moment of its creation.

    `rtt_s` is the round trip in seconds. `trace` replaces it by measured round trips in seconds,
    one per `slice_s` seconds, repeated from the start. The caps are bytes per second and
    connection.
    """

    rtt_s: float = 0.0
    jitter: Jitter = Jitter.RANDOM
    up_bytes_per_s: float = math.inf
    down_bytes_per_s: float = math.inf
    trace: tuple[float, ...] = ()
    slice_s: float = 1.0
    began: float = field(default_factory=time.monotonic)

    def latency(self, now: float, chance: random.Random) -> float:
        """Seconds one way for what is sent at `now`, on the monotonic clock."""
        elapsed = now - self.began
        if self.trace:
            return self.trace[int(elapsed / self.slice_s) % len(self.trace)] / 2
        match self.jitter:
            case Jitter.NONE:
                swing = 0.0
            case Jitter.RANDOM:
                swing = chance.uniform(-1, 1)
            case Jitter.SINE:
                swing = math.sin(_SINE_RADIANS_PER_S * elapsed)
        return self.rtt_s / 2 * (1 + JITTER * swing)


def read_trace(path: Path, link: str) -> tuple[float, ...]:
    """A link's measured round trips, in seconds, from a file such as the data's rtt.json."""
    links = {one["name"]: one["rtt_ms"] for one in json.loads(path.read_text())["links"]}
    if link not in links:
        raise SystemExit(f"{path} has no link {link}, only {', '.join(links)}")
    return tuple(value / 1000 for value in links[link])


class Lane:
    """One direction of a connection, and when bytes sent on it arrive."""

    def __init__(self, chance: random.Random, *, upward: bool) -> None:
        self._chance = chance
        self._upward = upward
        self._free = -math.inf  # when the last byte sent has left
        self._due = -math.inf  # when it arrives

    def due(self, network: Network, now: float, size: int) -> float:
        """When the last of `size` bytes sent at `now` arrives, which is never before earlier bytes.

        As on a real link, they take time to be sent (at the cap), and then the latency.
        """
        rate = network.up_bytes_per_s if self._upward else network.down_bytes_per_s
        self._free = max(self._free, now) + size / rate
        self._due = max(self._due, self._free + network.latency(now, self._chance))
        return self._due


class Relay:
    """Relays one port to another on loopback, on the event loop of another thread.

    `network` may be replaced at any time. `pause` loses nothing but delivers nothing either (a
    black hole that may heal); `cut` aborts every connection at once; `limit` cuts after that many
    more bytes have come up from the client. `down_bytes` counts what has gone down to clients.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, target_port: int, network: Network) -> None:
        self._loop = loop
        self._target = target_port
        self.network = network
        self._chance = random.Random(0)
        self._open = asyncio.Event()
        self._open.set()
        self._budget: int | None = None
        self.down_bytes = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def pause(self) -> None:
        """Deliver nothing until `resume`; connections stay open."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def resume(self) -> None:
        """Deliver what was held back, and continue."""
        self._loop.call_soon_threadsafe(self._open.set)

    def cut(self) -> None:
        """Abort every connection; new ones are accepted."""
        self._loop.call_soon_threadsafe(self._abort)

    def limit(self, up_bytes: int) -> None:
        """Cut after `up_bytes` more bytes have gone up: inside a frame, say."""
        self._budget = up_bytes

    def close(self) -> None:
        """Stop listening, and abort every connection."""
        self._run(self._end())

    async def _end(self) -> None:
        self._server.close()
        self._abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

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
        lane = Lane(self._chance, upward=upward)
        due = 0.0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(queue, sink))
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
                    if not upward:
                        self.down_bytes += len(data)
                    due = lane.due(self.network, time.monotonic(), len(data))
                    queue.put_nowait((due, data))
            queue.put_nowait((due, b""))

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
def relay(target_port: int, network: Network | None = None) -> Iterator[Relay]:
    """A relay within this context."""
    with background_loop() as loop:
        running = Relay(loop, target_port, network or Network())
        try:
            yield running
        finally:
            running.close()
