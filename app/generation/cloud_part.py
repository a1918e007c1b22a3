"""The cloud's part in one answer, as the device sees it.

The peer may be late, go away, or come back at any token. None of that is an error: the device goes
on alone from the last committed token, says so once, and lets the peer in again when it can.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from app.generation.events import PeerChanged, Source
from app.generation.timeline import Trace
from app.peer_link.client import Link
from dragon.inference.driver import Driver
from dragon.inference.estimates import Pace
from dragon.inference.logprobs import DetailMessage, Question
from dragon.link import control
from dragon.protocol.messages import Draft, SessionMessage
from dragon.protocol.session import Session
from dragon.sampling.role import Role

_WATCH_S = 0.1


class Partner:
    """Asks the peer in, watches it, lets it go. The link calls it about frames and connections.

    `opened` takes each generation number the answer gets on the link, `found` the peer's documents,
    `tell` what people are told of its comings and goings. `trace` notes its drafts, `detail` takes
    what it says of tokens, and `lost` is called when it will not say any more of them.
    """

    def __init__(
        self,
        opening: control.Open,
        link: Link,
        session: Session,
        driver: Driver,
        pace: Pace,
        deadline: float | None,
        *,
        opened: Callable[[int], None],
        found: Callable[[list[Source]], None],
        tell: Callable[[PeerChanged], None],
        trace: Trace,
        detail: Callable[[DetailMessage], None],
        lost: Callable[[], None],
    ) -> None:
        self._opening = opening
        self._link = link
        self._session = session
        self._driver = driver
        self._pace = pace
        self._deadline = deadline
        self._opened = opened
        self._found = found
        self._tell = tell
        self._trace = trace
        self._detail = detail
        self._lost = lost
        self._generation: int | None = None
        self._ready = False
        self._heard = asyncio.Event()  # the peer has documents, or will not have any
        self._base = 0  # tokens the peer was opened with
        self._told: bool | None = None
        link.attached.add(self)

    def ask(self) -> None:
        """Open the answer on the peer, where the text is by now, unless it is open there."""
        if self._generation is not None or not self._link.connected:
            return
        committed = tuple(self._session.committed)
        self._base = len(committed)
        self._ready = False
        self._generation = self._link.open(self)
        self._opened(self._generation)
        changes = {"committed": committed, "joint": self._session.joint}
        self._link.send(self._opening.model_copy(update=changes), self._generation)

    async def heard(self) -> None:
        """Return once the peer has documents for this answer, or is not here, or is late."""
        if self._generation is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline):
                await self._heard.wait()

    def begun(self) -> None:
        """The device has prefilled and starts, with the peer or without."""
        if not self._session.joint:
            self._say(False, 0, self._link.status.detail or "there is no connection to the cloud")

    def leave(self, reason: str) -> None:
        """The answer is over: the peer frees what it holds for it."""
        self._link.attached.discard(self)
        self._close(reason)

    def send(self, message: SessionMessage) -> int:
        """Send a message of the session; the bytes of its frame, 0 when nobody is there."""
        return 0 if self._generation is None else self._link.send(message, self._generation)

    @property
    def present(self) -> bool:
        """Whether the peer has this answer open."""
        return self._generation is not None

    def ask_about(self, question: Question) -> None:
        """Ask the peer about a token."""
        if self._generation is not None:
            self._link.send(question, self._generation)

    def note(self) -> None:
        """Say so if the session has let the peer go: its context is full, or no agreement."""
        if self._session.joint or self._told is False:
            return
        full = len(self._session.committed) >= self._session.limits.horizon
        self._gone("the cloud's context is full" if full else "the two sides could not agree")
        # One whose context is full has still to tell of the last tokens it took part in.
        if not full or self._opening.details is None:
            self._close("lost")
            self._lost()

    async def watch(self) -> None:
        """The only clock of an answer: the deadline of the first token, and stalls."""
        began = quiet_since = time.monotonic()
        activity = self._driver.activity
        while True:
            await asyncio.sleep(_WATCH_S)
            now = time.monotonic()
            if self._driver.activity != activity:
                activity, quiet_since = self._driver.activity, now
            if not self._session.joint:
                continue
            stall = self._pace.stall_limit()
            if min(now - quiet_since, now - self._link.last_heard) > stall:
                self._link.drop("the peer does not answer")
            elif not self._ready:
                if self._deadline is not None and now - began > self._deadline:
                    self._lose("the cloud is late")
            elif now - quiet_since > stall * 2**self._session.resyncs:
                quiet_since = now
                self._session.stalled()
                self.note()
                self._driver.advance()

    # By the link.

    def peer_ready(self, ready: control.Ready) -> None:
        """The peer has its documents: it takes part from here on."""
        self._ready = True
        self._heard.set()
        self._driver.activity += 1
        self._found([public_source(document) for document in ready.documents])
        self._session.set_horizon(ready.horizon)
        rejoined = not self._session.joint
        if rejoined:
            self._session.join(self._base)
        if self._session.joint:
            position = len(self._session.committed) if rejoined else 0
            again = self._told is False
            self._say(True, position, f"the cloud takes part{' again' if again else ''}")
        else:
            self._close("too late")
        self._driver.advance()

    def peer_said(self, message: SessionMessage) -> None:
        """A draft, or a request to resync."""
        if isinstance(message, Draft):
            self._pace.hear(message)
            self._trace.draft(Role.CLOUD, message, (self._pace.link.round_trip.value or 0.0) / 2)
        self._driver.receive(message)
        self.note()

    def peer_failed(self, message: str) -> None:
        """The peer has given this answer up; it is not asked again for it."""
        self._generation = None
        self._heard.set()
        self._link.attached.discard(self)
        self._lose(message)
        self._lost()

    def peer_detailed(self, message: DetailMessage) -> None:
        """The peer tells of a token that it has committed."""
        self._driver.activity += 1
        self._detail(message)

    def link_up(self) -> None:
        """A connection again."""
        if self._session.joinable:
            self.ask()

    def link_down(self) -> None:
        """The connection is gone."""
        self._generation = None
        self._heard.set()
        self._lose("the connection to the cloud was lost")
        self._lost()

    # Inside.

    def _lose(self, reason: str) -> None:
        if self._session.joint:
            self._session.lose()
            self._gone(reason)
            self._lost()
            self._driver.advance()

    def _gone(self, reason: str) -> None:
        self._say(False, self._session.membership.alone_since, reason)

    def _say(self, joint: bool, position: int, reason: str) -> None:
        """Tell people, once for each change."""
        if self._told is not joint:
            self._told = joint
            self._tell(PeerChanged(joint, position, reason))

    def _close(self, reason: str) -> None:
        if self._generation is not None:
            self._link.close(self._generation, reason)
            self._generation = None


def public_source(document: control.PublicDocument) -> Source:
    """A document of the cloud's as people see it."""
    return Source(
        "public",
        document.id,
        document.title,
        document.text,
        score=document.score,
        weight=document.weight,
    )
