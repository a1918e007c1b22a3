"""One WebSocket to one peer: greeted, read, written and monitored, or only tried and measured."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from app.peer_link.status import Refusal, denied
from dragon.errors import FrameError, HandshakeError, LinkError
from dragon.inference.estimates import LinkMeter
from dragon.link import batching, control, registry
from dragon.link.address import PeerAddress
from dragon.link.control import check_hello
from dragon.link.share import LoopShare
from dragon.localizable import localizable
from dragon.sampling.role import Role

log = logging.getLogger(__name__)

PING_S = 0.5
OPEN_TIMEOUT_S = 5.0
_MAX_QUEUED = 20_000
_MEASURED_PINGS = 3
_PROBE_TIMEOUT_S = 30.0
_PINGS, _PROBES = 20, 3
# Less than this beyond a round trip is noise: the link is too fast to measure this way.
_MIN_TRANSFER_S = 0.001

M = TypeVar("M", bound=control.Control)


@dataclass(frozen=True)
class Introduction:
    """How the device introduces itself to its peers; token ids from them are below `vocab_size`."""

    key: str | None
    hello: control.Hello
    vocab_size: int


class _Direct(connect):
    """Follows no redirects: elsewhere the link might not be encrypted."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


async def dialled(address: PeerAddress, key: str | None) -> ClientConnection:
    """A WebSocket to a peer. Raises `OSError`, `TimeoutError`, `WebSocketException`."""
    return await _Direct(
        address.url,
        additional_headers={"Authorization": f"Bearer {key}"} if key else {},
        ssl=address.tls(),
        compression=None,
        max_size=control.MAX_CONTROL_BYTES,
        open_timeout=OPEN_TIMEOUT_S,
        close_timeout=1,
        ping_interval=None,  # our own pings measure and monitor
        proxy=None,
    )


async def exchange_hellos(socket: ClientConnection, hello: control.Hello) -> None:
    """Greet the peer. Raises `HandshakeError` if it refuses or does not fit."""
    await socket.send(registry.encode(hello))
    # No token crosses the link before an answer is opened.
    _, other = registry.decode(str(await socket.recv(decode=True)), Role.CLOUD, vocab_size=1)
    if isinstance(other, control.Fault):
        raise HandshakeError(other.reason)
    if not isinstance(other, control.Hello):
        raise FrameError("the peer's first frame is not a hello")
    check_hello(hello, other)


class Receiver(Protocol):
    """Takes what arrives on its stream. Raises `FrameError` for unexpected messages."""

    def receive(self, message: registry.Message) -> None:
        """Handle a message of the stream."""

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        """The peer has given the stream up, or refused it for now; the stream is closed."""

    def link_down(self) -> None:
        """The connection was lost; the stream is closed."""


class Observer(Protocol):
    """Sees what leaves the device."""

    def opened(self, stream: int, answer: str) -> None:
        """From now on a stream id's frames are sent for an answer, given by its id."""

    def sent(self, stream: int, message: registry.Message, frame: registry.Frame) -> None:
        """A message is sent as this frame; all but the greeting are reported."""


class Connection:
    """A connection to a peer and the streams on it. `load`, 0 to 1, is the peer's own report.

    `changed` is called when the peer is shutting down, when it has no room for an answer, and when
    the connection has ended.
    """

    def __init__(
        self,
        address: PeerAddress,
        introduction: Introduction,
        meter: LinkMeter,
        observer: Observer,
        refusals: dict[PeerAddress, Refusal],
        changed: Callable[[], None],
    ) -> None:
        self.address = address
        self.meter = meter
        self.load = 0.0
        self.last_received = 0.0
        self.draining = False  # the peer is shutting down
        self.ended = False
        self.streams: dict[int, Receiver] = {}
        self._left = False  # new streams go to another connection
        self._introduction = introduction
        self._observer = observer
        self._refusals = refusals
        self._changed = changed
        self._outbound: asyncio.Queue[registry.Frame] = asyncio.Queue()

    async def open(self, *, measured: bool) -> None:
        """Connect and greet and, if `measured`, measure round trip and load.

        Raises `LinkError`, `OSError`, `TimeoutError`, `WebSocketException`.
        """
        self._socket = await dialled(self.address, self._introduction.key)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await exchange_hellos(self._socket, self._introduction.hello)
                for _ in range(_MEASURED_PINGS if measured else 0):
                    await self._measure()
        except BaseException:
            self._socket.transport.abort()
            raise
        self.last_received = time.monotonic()

    async def serve(self) -> None:
        """Read and write until the connection ends, and tell its streams. Raises as `open` does."""
        helpers = [asyncio.create_task(self._write()), asyncio.create_task(self._ping())]
        share = LoopShare(time.perf_counter())
        try:
            async for message in self._socket:
                self.last_received = time.monotonic()
                for frame in batching.split(message):
                    began = time.perf_counter()
                    try:
                        self._route(frame)
                    except (FrameError, LinkError):
                        raise
                    except Exception:
                        log.exception("an answer failed on a frame of the peer")
                    now = time.perf_counter()
                    if (pause := share.took(now - began, now)) is not None:
                        await asyncio.sleep(pause)
        except FrameError as error:
            log.warning("the peer sent a bad frame: %s", error.message)
            await self._socket.close(1002, "bad frame")
        finally:
            for task in helpers:
                task.cancel()
            self.abort()

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; returns its frame's bytes, 0 once the connection has ended."""
        if self.ended:
            return 0
        if self._outbound.qsize() >= _MAX_QUEUED:
            self.drop("the peer does not read")
            return 0
        frame = registry.encode(message, stream)
        self._observer.sent(stream, message, frame)
        self._outbound.put_nowait(frame)
        if self.meter.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))
        return len(frame)

    def close(self, stream: int, reason: str) -> None:
        """Close a stream on both sides; frames that still arrive for it are dropped."""
        if self.streams.pop(stream, None) is not None:
            self._refusals.pop(self.address, None)  # it may have room again
            self.send(control.Close(reason=reason), stream)

    def leave(self) -> None:
        """Open no more streams; the connection ends with the last current one."""
        if not self._left:
            self._left = True
            self.send(control.Draining())

    def drop(self, reason: str) -> None:
        """Drop the connection at once, without waiting for the peer."""
        if not self.ended:
            log.warning("link dropped: %s", reason)
            self.abort()

    def abort(self) -> None:
        """End the connection, and tell its streams; a second call does nothing."""
        if self.ended:
            return
        self.ended = True
        self._socket.transport.abort()
        self._changed()
        streams, self.streams = self.streams, {}
        for receiver in streams.values():
            receiver.link_down()

    async def _measure(self) -> None:
        number = self.meter.ping(time.monotonic())
        await self._socket.send(registry.encode(control.Ping(number=number)))
        self._take(await _reply(self._socket, control.Pong, lambda pong: pong.number == number))

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while not (self._left and not self.streams and self._outbound.empty()):
                taken = batching.take(await self._outbound.get(), self._outbound)
                for message in batching.messages(taken):
                    await self._socket.send(message)
            await self._socket.close()

    async def _ping(self) -> None:
        for number in itertools.count():
            self._send_ping()
            # The first ones come quickly, so that the draft window is right from the start.
            await asyncio.sleep(PING_S if number > 2 else PING_S / 10)
            now = time.monotonic()
            if now - max(self.meter.oldest(now), self.last_received) > 20 * PING_S:
                self.drop("the peer does not answer")

    def _send_ping(self, behind: int = 0) -> None:
        self.send(control.Ping(number=self.meter.ping(time.monotonic(), behind)))

    def _route(self, frame: registry.Frame) -> None:
        stream, message = registry.decode(frame, Role.CLOUD, self._introduction.vocab_size)
        match message:
            case control.Ping():
                self.send(control.Pong(number=message.number))
            case control.Pong():
                self._take(message)
            case control.Draining():
                self.draining = True
                self._changed()
            case control.Fault() if stream == registry.LINK:
                raise LinkError(message.reason)
            case control.Fault():
                if (receiver := self.streams.pop(stream, None)) is not None:
                    refusal = None
                    if message.retry_s is not None:
                        refusal = Refusal.now(message.reason, message.retry_s)
                        self._refusals[self.address] = refusal
                        self._changed()
                    receiver.failed(message.reason, refusal)
            case _:
                # The peer may still send to a stream that was just closed.
                if (receiver := self.streams.get(stream)) is not None:
                    receiver.receive(message)

    def _take(self, pong: control.Pong) -> None:
        self.meter.pong(pong.number, time.monotonic())
        self.load = pong.load


@dataclass(frozen=True)
class LinkFigures:
    """Round trip in seconds; bandwidths in bytes per second, None if too high to measure."""

    rtt_s: float
    sending: float | None
    receiving: float | None


def greet(peer: PeerAddress, key: str | None, hello: control.Hello) -> None:
    """Exchange greetings; not from a running event loop. Raises `LinkError`, `HandshakeError`."""

    async def exchange() -> None:
        async with _connected(peer, key, hello):
            pass

    asyncio.run(exchange())


def measure(peer: PeerAddress, key: str | None, hello: control.Hello) -> LinkFigures:
    """Measure the link to a peer; not from a running event loop. Raises `LinkError`."""

    async def measured() -> LinkFigures:
        async with _connected(peer, key, hello) as socket:
            rtt_s = await _probed(socket, 0, 0, _PINGS)
            sending = await _probed(socket, control.MAX_PROBE, 0, _PROBES)
            receiving = await _probed(socket, 0, control.MAX_PROBE, _PROBES)
        return LinkFigures(rtt_s, _bandwidth(sending - rtt_s), _bandwidth(receiving - rtt_s))

    return asyncio.run(measured())


# Not with `websockets.sync`: it reads and writes from two threads, which a TLS connection does not
# support before Python 3.13, and one handshake in a few thousand never ended.
@contextlib.asynccontextmanager
async def _connected(
    peer: PeerAddress, key: str | None, hello: control.Hello
) -> AsyncIterator[ClientConnection]:
    try:
        async with await dialled(peer, key) as socket:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                await exchange_hellos(socket, hello)
            yield socket
    except InvalidStatus as error:
        raise HandshakeError(denied(error)) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise LinkError(f"no peer at {peer.url}: {error or 'no answer'}") from error


def _bandwidth(transfer_s: float) -> float | None:
    return control.MAX_PROBE / transfer_s if transfer_s > _MIN_TRANSFER_S else None


async def _probed(socket: ClientConnection, sent: int, received: int, times: int) -> float:
    """The least seconds that it takes to exchange so many bytes."""
    probe = registry.encode(control.Probe(payload="." * sent, reply=received))
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            await socket.send(probe)
            await _reply(socket, control.Probe, lambda reply: len(reply.payload) == received)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


async def _reply(socket: ClientConnection, kind: type[M], wanted: Callable[[M], bool]) -> M:
    """The next message, which must be the wanted one of a kind; pings before it are answered.

    Raises `LinkError` if the peer is about to end or reports a fault, `FrameError` for any other.
    """
    while True:
        frame = str(await socket.recv(decode=True))
        match registry.decode(frame, Role.CLOUD, vocab_size=1)[1]:
            case control.Ping() as ping:
                await socket.send(registry.encode(control.Pong(number=ping.number)))
            case control.Fault() as fault:
                raise LinkError(fault.reason)
            case control.Draining():
                raise LinkError(localizable("link.ending", "the peer is about to end"))
            case message if isinstance(message, kind) and wanted(message):
                return message
            case other:
                raise FrameError(f"the peer answered with {registry.name_of(other)}")
