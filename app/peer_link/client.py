"""The link from the device to its peers: one gets new streams, others may finish their own."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from websockets.exceptions import WebSocketException

from app.peer_link.connection import Connection, Introduction, Observer, Receiver
from app.peer_link.status import LOST, PeerStatus, Refusal, failed, lost, together
from dragon.errors import DragonError, LinkError
from dragon.inference.estimates import Pace
from dragon.link import registry
from dragon.link.address import PeerAddress

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""How often to check whether another of several peers is better."""
_BACKOFF_S = (0.1, 5.0)
_STEADY_S = 2.0
# A full peer, or one that has just refused an answer, counts as this much farther away than an idle
# one; switching must save at least `_WORTH_S`.
_FULL_S = 0.5
_WORTH_S = 0.05
# Connecting, greeting and measuring take this many round trips, and a little for a busy peer.
_ROUND_TRIPS = 6
_LEAST_WAIT_S = 0.1
_ERRORS = (OSError, TimeoutError, WebSocketException, LinkError)


class Rejoining(Receiver, Protocol):
    """A receiver that outlives a connection, and may open another stream on the next one."""

    def link_up(self) -> None:
        """There is a new connection."""


class Link:
    """Stays connected to the best of its peers, by round trip and load, and routes streams.

    If its peer is shutting down or another one is better, new streams go elsewhere, and current
    ones finish where they are. `attached` receivers are notified of new connections; `pace` has the
    meter of the current one.
    """

    def __init__(
        self,
        peers: Sequence[PeerAddress],
        introduction: Introduction,
        pace: Pace,
        observer: Observer,
        look_s: float = LOOK_S,
    ) -> None:
        self._peers = peers
        self._introduction = introduction
        self._pace = pace
        self._observer = observer
        self._look_s = look_s
        self._numbers = itertools.count(1)
        self._current: Connection | None = None
        self._connections: set[Connection] = set()  # the current one, and those that are ending
        self._refusals: dict[PeerAddress, Refusal] = {}
        self._changed = asyncio.Event()
        self._served: set[asyncio.Task[None]] = set()
        self._status = PeerStatus("connecting")
        self.attached: set[Rejoining] = set()

    @property
    def connected(self) -> bool:
        """Whether streams can be opened now."""
        return self._current is not None and not self._current.ended

    @property
    def status(self) -> PeerStatus:
        if not self.connected:
            return self._status
        rtt = self._pace.link.round_trip.seen
        return PeerStatus("connected", None if rtt is None else round(1000 * rtt, 1))

    @property
    def refusal(self) -> Refusal | None:
        """Why the peer should not be asked for an answer now, although it is connected."""
        return None if self._current is None else self._refusal_of(self._current.address)

    def open(self, receiver: Receiver, answer: str) -> int:
        """A new stream id for an answer, whose frames go to the receiver from now on."""
        stream, connection = next(self._numbers), self._current
        if connection is not None and not connection.ended:
            connection.streams[stream] = receiver
        self._observer.opened(stream, answer)
        return stream

    def close(self, stream: int, reason: str) -> None:
        """Close a stream on both sides; frames that still arrive for it are dropped."""
        if (connection := self._with(stream)) is not None:
            connection.close(stream, reason)

    def send(self, message: registry.Message, stream: int) -> int:
        """Queue a message; returns its frame's bytes, 0 without a connection."""
        connection = self._with(stream)
        return 0 if connection is None else connection.send(message, stream)

    def drop(self, stream: int, reason: str) -> None:
        """Drop a stream's connection at once, without waiting for the peer."""
        if (connection := self._with(stream)) is not None:
            connection.drop(reason)

    def last_received(self, stream: int) -> float:
        """When anything last came on an open stream's connection, by the monotonic clock."""
        connection = self._with(stream)
        return time.monotonic() if connection is None else connection.last_received

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stay connected within this context."""
        task = asyncio.create_task(self.run(), name="link")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, DragonError):
                await task

    async def run(self) -> None:
        """Stay connected until cancelled."""
        delay = _BACKOFF_S[0]
        try:
            while True:
                began = time.monotonic()
                found = await self._best(self._peers)
                if isinstance(found, PeerStatus):
                    if not self.connected:
                        self._set_status(found)
                    if found.state == "refused":
                        delay = _BACKOFF_S[1]
                else:
                    self._take(found)
                    await self._while_good(found)
                    # Do not hammer a peer that greets and hangs up.
                    if time.monotonic() - began > _STEADY_S:
                        delay = _BACKOFF_S[0]
                        if self.connected:
                            continue
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
                delay = min(2 * delay, _BACKOFF_S[1])
        finally:
            for task in self._served:
                task.cancel()

    async def _best(self, peers: Sequence[PeerAddress]) -> Connection | PeerStatus:
        """A connection to the best reachable peer, or why there is none."""
        attempts = {asyncio.create_task(self._reached(peer)): peer for peer in peers}
        pending, began = set(attempts), time.monotonic()
        wait: float | None = None
        found: list[Connection] = []
        failures: dict[PeerAddress, PeerStatus] = {}
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=wait, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    outcome = task.result()
                    if isinstance(outcome, Connection):
                        found.append(outcome)
                    else:
                        failures[attempts[task]] = outcome
                if not done:
                    break
                # A cheaper peer would have greeted by then.
                if found:
                    longest = max(_LEAST_WAIT_S, _ROUND_TRIPS * min(map(self._cost, found)))
                    wait = max(0.0, began + longest - time.monotonic())
        except BaseException:
            _abort(found)
            raise
        finally:
            for task in pending:
                task.cancel()
            late = await asyncio.gather(*pending, return_exceptions=True)
            _abort(each for each in late if isinstance(each, Connection))
        if not found:
            return together(failures)
        best = min(found, key=self._cost)
        _abort(each for each in found if each is not best)
        return best

    async def _reached(self, peer: PeerAddress) -> Connection | PeerStatus:
        """A connection to this peer, measured if there are others, or why there is none."""
        connection = Connection(
            peer, self._introduction, self._pace.link.anew(), self._observer, self._refusals,
            self._on_change,
        )  # fmt: skip
        try:
            await connection.open(measured=len(self._peers) > 1)
        except _ERRORS as error:
            return failed(error)
        except Exception as error:  # the link must not end with it
            log.exception("a peer could not be greeted")
            return failed(error)
        return connection

    def _take(self, connection: Connection) -> None:
        """New streams go to this connection from now on."""
        left, self._current = self._current, connection
        self._connections.add(connection)
        self._pace.link = connection.meter
        task = asyncio.create_task(self._serve(connection))
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        self._set_status(PeerStatus("connected"))
        log.info("linked to the cloud peer at %s", connection.address.url)
        if left is not None:
            left.leave()
        for receiver in tuple(self.attached):
            receiver.link_up()

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.serve()
        except _ERRORS as error:
            if connection is self._current:
                self._set_status(PeerStatus("connecting", detail=lost(error)))
        finally:
            self._connections.discard(connection)

    async def _while_good(self, connection: Connection) -> None:
        """Return once it, or a better one found since, has ended or its peer is shutting down."""
        several = len(self._peers) > 1
        while not (connection.ended or connection.draining):
            self._changed.clear()
            look_s = random.uniform(0.5, 1.0) * self._look_s
            with suppress(TimeoutError):
                async with asyncio.timeout(look_s if several else None):
                    await self._changed.wait()
            if several and not (connection.ended or connection.draining):
                connection = await self._better_than(connection)

    async def _better_than(self, connection: Connection) -> Connection:
        """Switch to another peer if it is worth it; returns the connection used from now on."""
        found = await self._best([peer for peer in self._peers if peer != connection.address])
        if isinstance(found, PeerStatus):
            return connection
        if connection.ended or self._cost(found) + _WORTH_S < self._cost(connection):
            self._take(found)
            return found
        found.abort()
        return connection

    def _cost(self, connection: Connection) -> float:
        """An answer's cost at a peer, in seconds."""
        refused = self._refusal_of(connection.address) is not None
        return (connection.meter.round_trip.value or 0.0) + _FULL_S * (connection.load + refused)

    def _refusal_of(self, peer: PeerAddress) -> Refusal | None:
        refusal = self._refusals.get(peer)
        return refusal if refusal is not None and refusal.stands else None

    def _with(self, stream: int) -> Connection | None:
        return next((each for each in self._connections if stream in each.streams), None)

    def _on_change(self) -> None:
        """A connection has ended, or its peer is shutting down or has no room for an answer."""
        if self._current is not None and self._current.ended:
            self._set_status(PeerStatus("connecting", detail=LOST))
        self._changed.set()

    def _set_status(self, status: PeerStatus) -> None:
        """Set the status. A loss is logged with its reason, repeated attempts are not."""
        before, self._status = self._status, status
        if status.detail and (status.state, True) != (before.state, bool(before.detail)):
            peers = ", ".join(peer.url for peer in self._peers)
            log.warning("no link to the cloud peer at %s: %s", peers, status.detail)


def _abort(connections: Iterable[Connection]) -> None:
    for connection in connections:
        connection.abort()
