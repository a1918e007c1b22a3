"""The WebSocket from the device to its peer: kept open, and shared by all streams."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import time
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from app.peer_link.status import PeerStatus
from dragon.errors import FrameError, HandshakeError, LinkError
from dragon.inference.estimates import LinkMeter
from dragon.link import batching, control, registry
from dragon.link.handshake import check_hello
from dragon.link.share import LoopShare
from dragon.sampling.role import Role

log = logging.getLogger(__name__)

PING_S = 0.5
OPEN_TIMEOUT_S = 5.0
_BACKOFF_S = (0.1, 5.0)
_STEADY_S = 2.0
_MAX_QUEUED = 20_000


class Receiver(Protocol):
    """Takes what arrives on its stream. Raises `FrameError` for what does not belong there."""

    def receive(self, message: registry.Message) -> None:
        """A message of the stream."""

    def failed(self, message: str) -> None:
        """The peer has given the stream up; the stream is closed."""

    def link_down(self) -> None:
        """The connection was lost; the stream is closed."""


class Rejoining(Receiver, Protocol):
    """A receiver that outlives a connection, and may open another stream on the next one."""

    def link_up(self) -> None:
        """There is a connection again."""


class Observer(Protocol):
    """Sees what leaves the device."""

    def opened(self, stream: int, answer: str) -> None:
        """From now on the frames of a stream id are sent for an answer, named by its id."""

    def sent(self, stream: int, message: registry.Message, frame: registry.Frame) -> None:
        """A message is sent as this frame; all but the greeting are reported."""


class Link:
    """Connects, greets, pings, reconnects with backoff, and routes frames to their streams.

    `attached` receivers are notified of new connections.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        hello: control.Hello,
        vocab_size: int,
        meter: LinkMeter,
        observer: Observer,
    ) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._hello = hello
        self._vocab_size = vocab_size
        self._numbers = itertools.count(1)
        self._streams: dict[int, Receiver] = {}
        self._outbound: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._connection: ClientConnection | None = None
        self._meter = meter
        self._observer = observer
        self.last_received = 0.0
        self.status = PeerStatus("connecting")
        self.attached: set[Rejoining] = set()

    @property
    def connected(self) -> bool:
        """Whether frames can be sent now."""
        return self._connection is not None

    def open(self, receiver: Receiver, answer: str) -> int:
        """A new stream id for an answer, whose frames go to the receiver from now on."""
        stream = next(self._numbers)
        self._streams[stream] = receiver
        self._observer.opened(stream, answer)
        return stream

    def close(self, stream: int, reason: str) -> None:
        """Close a stream on both sides; frames that still arrive for it are dropped."""
        if self._streams.pop(stream, None) is not None and self.connected:
            self.send(control.Close(reason=reason), stream)

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; the bytes of its frame, 0 where there is no connection to send it by."""
        if self._connection is None:
            return 0
        if self._outbound.qsize() >= _MAX_QUEUED:
            self.drop("the peer does not read")
            return 0
        frame = registry.encode(message, stream)
        self._observer.sent(stream, message, frame)
        self._outbound.put_nowait(frame)
        if self._meter.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))
        return len(frame)

    def drop(self, reason: str) -> None:
        """Give the connection up at once, without waiting for the peer; a new one is tried."""
        if self._connection is not None:
            log.warning("link dropped: %s", reason)
            connection, self._connection = self._connection, None
            connection.transport.abort()
            self._lost()

    async def run(self) -> None:
        """Stay connected until cancelled."""
        delay = _BACKOFF_S[0]
        while True:
            try:
                async with connect(
                    self._url,
                    additional_headers=self._headers,
                    compression=None,
                    max_size=control.MAX_CONTROL_BYTES,
                    open_timeout=OPEN_TIMEOUT_S,
                    close_timeout=1,
                    ping_interval=None,  # our own pings measure and watch
                    proxy=None,
                ) as connection:
                    await self._greet(connection)
                    greeted = time.monotonic()
                    try:
                        await self._serve(connection)
                    finally:
                        # A peer that greets and hangs up is not run down.
                        if time.monotonic() - greeted > _STEADY_S:
                            delay = _BACKOFF_S[0]
            except HandshakeError as error:
                self._set_status(PeerStatus("refused", detail=error.message))
                delay = _BACKOFF_S[1]
            except InvalidStatus as error:
                body = (error.response.body or b"")[:500].decode(errors="replace")
                detail = body or f"HTTP {error.response.status_code}"
                self._set_status(
                    PeerStatus("refused", detail=f"the peer refuses the link: {detail}")
                )
                delay = _BACKOFF_S[1]
            except (OSError, TimeoutError, WebSocketException, LinkError) as error:
                self._set_status(PeerStatus("connecting", detail=str(error) or "no answer"))
            finally:
                if self._connection is not None:
                    self._connection = None
                    self._lost()
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, _BACKOFF_S[1])

    async def _greet(self, connection: ClientConnection) -> None:
        await connection.send(registry.encode(self._hello))
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            reply = await connection.recv(decode=True)
        _, other = registry.decode(str(reply), Role.CLOUD, self._vocab_size)
        if isinstance(other, control.Fault):
            raise HandshakeError(other.message)
        if not isinstance(other, control.Hello):
            raise FrameError("the peer's first frame is no hello")
        check_hello(self._hello, other)

    async def _serve(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._outbound = asyncio.Queue()
        self._meter.reset()
        self.last_received = time.monotonic()
        self._set_status(PeerStatus("connected"))
        helpers = [asyncio.create_task(self._write(connection)), asyncio.create_task(self._ping())]
        for receiver in tuple(self.attached):
            receiver.link_up()
        share = LoopShare(time.perf_counter())
        try:
            async for message in connection:
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
            await connection.close(1002, "bad frame")
        finally:
            for task in helpers:
                task.cancel()

    async def _write(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                taken = batching.take(await self._outbound.get(), self._outbound)
                for message in batching.messages(taken):
                    await connection.send(message)

    async def _ping(self) -> None:
        for number in itertools.count():
            self._send_ping()
            # The first ones come quickly, so that the draft window is right from the start.
            await asyncio.sleep(PING_S if number > 2 else PING_S / 10)
            now = time.monotonic()
            if now - max(self._meter.oldest(now), self.last_received) > 20 * PING_S:
                self.drop("the peer does not answer")

    def _send_ping(self, behind: int = 0) -> None:
        number = self._meter.ping(time.monotonic(), behind)
        self.send(control.Ping(number=number))

    def _route(self, frame: registry.Frame) -> None:
        stream, message = registry.decode(frame, Role.CLOUD, self._vocab_size)
        match message:
            case control.Ping():
                self.send(control.Pong(number=message.number))
            case control.Pong():
                self._take_pong(message.number)
            case control.Fault() if stream == registry.LINK:
                raise LinkError(message.message)
            case control.Fault():
                if (receiver := self._streams.pop(stream, None)) is not None:
                    receiver.failed(message.message)
            case _:
                # A stream that was just closed may still be sent to.
                if (receiver := self._streams.get(stream)) is not None:
                    receiver.receive(message)

    def _take_pong(self, number: int) -> None:
        self._meter.pong(number, time.monotonic())
        if (rtt := self._meter.round_trip.seen) is not None:
            self._set_status(PeerStatus("connected", rtt_ms=round(1000 * rtt, 1)))

    def _set_status(self, status: PeerStatus) -> None:
        """Set the status. A change is logged with its reason, repeated attempts are not."""
        before, self.status = self.status, status
        if (status.state, bool(status.detail)) == (before.state, bool(before.detail)):
            return
        if status.state == "connected":
            log.info("linked to the cloud peer at %s", self._url)
        else:
            log.warning("no link to the cloud peer at %s: %s", self._url, status.detail)

    def _lost(self) -> None:
        self._set_status(PeerStatus("connecting", detail="the connection was lost"))
        streams, self._streams = self._streams, {}
        for receiver in streams.values():
            receiver.link_down()
