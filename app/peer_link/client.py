"""The one WebSocket from the device to its peer: kept open, shared by all answers being written."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from app.generation.events import PeerStatus
from dragon.errors import FrameError, HandshakeError, LinkError
from dragon.inference.estimates import LinkMeter
from dragon.inference.logprobs import CloudDetail, DetailMessage, Values
from dragon.link import batching, control, registry
from dragon.link.bulk import Bulk
from dragon.link.handshake import check_hello
from dragon.protocol.messages import Candidate, Draft, Resync, Score, SessionMessage, Target
from dragon.sampling.role import Role

log = logging.getLogger(__name__)

PING_S = 0.5
OPEN_TIMEOUT_S = 5.0
_BACKOFF_S = (0.1, 5.0)
_STEADY_S = 2.0
_MAX_QUEUED = 20_000


class Answerer(Protocol):
    """An answer being written, as the link sees it."""

    def peer_ready(self, ready: control.Ready) -> None:
        """The peer has its documents and begins."""

    def peer_said(self, message: SessionMessage) -> None:
        """A message for the session."""

    def peer_detailed(self, message: DetailMessage) -> None:
        """What the peer tells of a token."""

    def peer_failed(self, message: str) -> None:
        """The peer cannot take part in this answer."""

    def link_up(self) -> None:
        """There is a connection (again)."""

    def link_down(self) -> None:
        """The connection is gone."""


class Fetching(Protocol):
    """Documents or scores being fetched, as the link sees it."""

    def peer_sent_documents(self, sent: control.Fetched | control.Scoring) -> None:
        """The documents."""

    def peer_sent_bulk(self, data: bytes) -> None:
        """More of their KV, or of the distributions with them."""

    def peer_failed(self, message: str) -> None:
        """Nothing more comes."""


class Link:
    """Connects, greets, keeps time, reconnects with backoff, and routes frames to answers.

    `witness` sees every frame that is sent, but the greeting.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        hello: control.Hello,
        vocab_size: int,
        meter: LinkMeter,
        witness: Callable[[int, registry.Message, registry.Frame], None],
    ) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._hello = hello
        self._vocab_size = vocab_size
        self._numbers = itertools.count(1)
        self._answers: dict[int, Answerer] = {}
        self._fetches: dict[int, Fetching] = {}
        self._outbound: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._connection: ClientConnection | None = None
        self._meter = meter
        self._witness = witness
        self.last_heard = 0.0
        self.status = PeerStatus("connecting")
        self.attached: set[Answerer] = set()

    @property
    def connected(self) -> bool:
        """Whether frames can be sent now."""
        return self._connection is not None

    def open(self, answer: Answerer) -> int:
        """A generation number for an answer, whose frames go to it from now on."""
        number = next(self._numbers)
        self._answers[number] = answer
        return number

    def open_fetch(self, fetching: Fetching) -> int:
        """A generation number for a fetch, whose frames go to it from now on."""
        number = next(self._numbers)
        self._fetches[number] = fetching
        return number

    def close(self, generation: int, reason: str) -> None:
        """Tell the peer that an answer is over, and route nothing to it any more."""
        known = self._answers.pop(generation, None) or self._fetches.pop(generation, None)
        if known is not None and self.connected:
            self.send(control.Close(reason=reason), generation)

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; the bytes of its frame, 0 where there is no connection to send it by."""
        if self._connection is None:
            return 0
        if self._outbound.qsize() >= _MAX_QUEUED:
            self.drop("the peer does not read")
            return 0
        frame = registry.encode(message, stream)
        self._witness(stream, message, frame)
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
                self._stand(PeerStatus("refused", detail=error.message))
                delay = _BACKOFF_S[1]
            except InvalidStatus as error:
                body = (error.response.body or b"")[:500].decode(errors="replace")
                detail = body or f"HTTP {error.response.status_code}"
                self._stand(PeerStatus("refused", detail=f"the peer refuses the link: {detail}"))
                delay = _BACKOFF_S[1]
            except (OSError, TimeoutError, WebSocketException, LinkError) as error:
                self._stand(PeerStatus("connecting", detail=str(error) or "no answer"))
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
        self.last_heard = time.monotonic()
        self._stand(PeerStatus("connected"))
        helpers = [asyncio.create_task(self._write(connection)), asyncio.create_task(self._ping())]
        for answer in tuple(self.attached):
            answer.link_up()
        try:
            async for message in connection:
                self.last_heard = time.monotonic()
                for frame in batching.split(message):
                    try:
                        self._route(frame)
                    except (FrameError, LinkError):
                        raise
                    except Exception:
                        log.exception("an answer failed on a frame of the peer")
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
            if now - max(self._meter.oldest(now), self.last_heard) > 20 * PING_S:
                self.drop("the peer does not answer")

    def _send_ping(self, behind: int = 0) -> None:
        number = self._meter.ping(time.monotonic(), behind)
        self.send(control.Ping(number=number))

    def _route(self, frame: registry.Frame) -> None:
        stream, message = registry.decode(frame, Role.CLOUD, self._vocab_size)
        match message:
            case Draft() | Target() | Resync() | Candidate() | Score():
                if (answer := self._answers.get(stream)) is not None:
                    answer.peer_said(message)
            case CloudDetail() | Values():
                if (answer := self._answers.get(stream)) is not None:
                    answer.peer_detailed(message)
            case control.Ready():
                if (answer := self._answers.get(stream)) is not None:
                    answer.peer_ready(message)
            case Bulk():
                if (fetching := self._fetches.get(stream)) is not None:
                    fetching.peer_sent_bulk(message.data)
            case control.Fetched() | control.Scoring():
                if (fetching := self._fetches.get(stream)) is not None:
                    fetching.peer_sent_documents(message)
            case control.Fault() if stream == registry.LINK:
                raise LinkError(message.message)
            case control.Fault():
                failed = self._answers.pop(stream, None) or self._fetches.pop(stream, None)
                if failed is not None:
                    failed.peer_failed(message.message)
            case control.Ping():
                self.send(control.Pong(number=message.number))
            case control.Pong():
                self._heard_pong(message.number)

    def _heard_pong(self, number: int) -> None:
        self._meter.pong(number, time.monotonic())
        if (rtt := self._meter.round_trip.seen) is not None:
            self._stand(PeerStatus("connected", rtt_ms=round(1000 * rtt, 1)))

    def _stand(self, status: PeerStatus) -> None:
        """Note how the link stands. A change is logged, with its reason; each attempt is not."""
        before, self.status = self.status, status
        if (status.state, bool(status.detail)) == (before.state, bool(before.detail)):
            return
        if status.state == "connected":
            log.info("linked to the cloud peer at %s", self._url)
        else:
            log.warning("no link to the cloud peer at %s: %s", self._url, status.detail)

    def _lost(self) -> None:
        self._answers.clear()
        self._stand(PeerStatus("connecting", detail="the connection was lost"))
        for fetching in self._fetches.values():
            fetching.peer_failed(self.status.detail)
        self._fetches.clear()
        for answer in tuple(self.attached):
            answer.link_down()
