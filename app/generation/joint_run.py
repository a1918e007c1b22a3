"""The device's run of an answer in which the cloud may take part.

The cloud may be late, leave, or come back at any token. None of that is an error: the device
continues alone from the last committed token, reports that once, and readmits the cloud when it
can.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

from app.generation.events import GenerationRequest, PeerChanged
from app.generation.plan import Plan, Retrieved, opening
from app.generation.run import DeviceRun
from app.peer_link.client import Link
from app.peer_link.status import Refusal
from dragon.errors import FrameError
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.fairness import HOUSEHOLD, lane_of
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.registry import Message
from dragon.localizable import Localizable, localizable
from dragon.protocol.messages import (
    Candidate,
    Correction,
    Draft,
    Resync,
    Score,
    SessionMessage,
    Target,
)
from dragon.protocol.state import Settled
from dragon.sampling.mixture import ETA_ONE, device_weight
from dragon.sampling.role import Role

_LOST = localizable("cloud.lost", "the connection to the cloud was lost")
_LATE = localizable("cloud.late", "the cloud is late")
_SLOW = localizable("cloud.slow", "the cloud does not go on")
_WATCH_S = 0.1
_PATIENCE_FOR_ROOM_S = 60.0  # for answers that wait however late the cloud is
_PATIENT = 5.0  # times longer, where the device alone could only say that it found no answer
_CROWD = 4  # concurrent answers that delay one another
_PATIENCE_S, _PATIENCE_A_TOKEN_S = 5.0, 0.5


class JointRun(DeviceRun):
    """An async context: entering it asks the cloud, leaving it frees both sides.

    Its request must hide nothing from the cloud (`GenerationRequest.given`).
    """

    linked = True

    def __init__(
        self,
        request: GenerationRequest,
        plan: Plan,
        engine: Engine,
        tokenizer: Tokenizer,
        pace: Pace,
        link: Link,
    ) -> None:
        assert not request.hides, "it is written from the cloud's part only"
        super().__init__(request, plan, engine, tokenizer, pace, joint=link.connected)
        self._link = link
        self._lane = lane_of(HOUSEHOLD.get().name)
        self._watcher: asyncio.Task[None] | None = None
        # The cloud's part in this run.
        self._stream: int | None = None
        self._base = 0  # tokens its stream was opened with
        self._replied = False  # it has reported its documents
        self._cloud_log_h: int | None = None
        self._entered = 0.0
        self._again: asyncio.TimerHandle | None = None  # for asking it again when it has room
        self._held = False  # whether the text waits for that
        self._deadline = plan.deadline  # seconds that the first token waits for the cloud
        self._reported: bool | None = None  # whether it takes part, as last reported

    async def __aenter__(self) -> Self:
        self._entered = time.monotonic()
        self._link.attached.add(self)
        if self._link.connected:
            self._ask_cloud()
        else:
            self._lose(_LOST)
        return self

    def advance(self) -> None:
        """As in `Run`, unless the answer waits for a cloud that has no room yet."""
        if not self._held:
            super().advance()

    def write(self, retrieved: Retrieved) -> None:
        """As in `DeviceRun`, but drop a cloud of little weight beside these rows."""
        if self._deadline is not None and retrieved.declines:
            self._deadline *= _PATIENT
        super().write(retrieved)
        self._leave_out()

    # Called by the link.

    def receive(self, message: Message) -> None:
        """Handle a message of the cloud. Raises `FrameError` for one that no run expects."""
        if isinstance(message, control.Ready):
            self._let_in(message)
            return
        if not isinstance(message, Draft | Target | Resync | Candidate | Score):
            raise FrameError(f"a peer sends no {type(message).__name__} in an answer")
        if isinstance(message, Draft):
            self._pace.observe_remote(message)
            underway = (self._pace.link.round_trip.value or 0.0) / 2
            self.answer.trace.draft(Role.CLOUD, message.position, message.decode_us, underway)
        super().receive(message)
        self._report_departure()

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        """The cloud has given this answer up; it is asked again only if it said when."""
        if refusal is not None:
            self._stream = None
            self._put_off(refusal)
            return
        self._give_up(Localizable(message, "cloud.failed"))

    def link_down(self) -> None:
        """The connection was lost; the cloud is asked again on the next one."""
        self._end_stream(_LOST)

    def link_up(self) -> None:
        """There is a connection again, or one to another peer."""
        if self.session.joinable:
            self._ask_cloud()

    # The cloud joins and leaves.

    def _ask_cloud(self, *, put_off: bool = False) -> None:
        """Open a stream at the current position, unless there is one.

        A cloud that has no room is left alone, unless the answer was `put_off` until now.
        """
        if self._stream is not None:
            return
        if not put_off and (refusal := self._link.refusal) is not None:
            self._put_off(refusal)
            return
        self._forget_time()
        # In a mode that sends up only words of the answer, only the premise goes up before the
        # cloud is known to take part.
        committed = tuple(self.session.committed) if self._request.mode.sends_up else ()
        self._base = len(committed)
        self._replied = False
        self._stream = self._link.open(self, self._request.id)
        self.asked = True
        asked = opening(self._request, self._plan, committed, self._lane, joint=self.session.joint)
        self._link.send(asked, self._stream)

    def _put_off(self, refusal: Refusal) -> None:
        """Continue alone, and ask again when the cloud has room.

        If that is soon, an answer without text waits for it.
        """
        self._forget_time()
        loop, wait_s = asyncio.get_running_loop(), refusal.again - time.monotonic()
        self._again = loop.call_later(wait_s, self._guarded, self._ask_again)
        patience = _PATIENCE_FOR_ROOM_S if self._deadline is None else self._deadline
        begun = bool(self.session.committed)
        self.session.lose()
        soon = refusal.again - self._entered < patience
        self._held = self.session.joinable and not begun and soon
        if not self._held:
            self._report_alone(refusal.message, refused=True)
            self.advance()

    def _ask_again(self) -> None:
        """Ask the cloud at the time that it gave."""
        if self._link.connected and self.session.joinable:
            self._ask_cloud(put_off=True)
        else:
            self._end_stream(_LOST)

    def _forget_time(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _let_in(self, ready: control.Ready) -> None:
        """The cloud has its documents and takes part from here on.

        Raises `FrameError` if it has already said so.
        """
        if self._replied:
            raise FrameError("a peer is ready only once per answer")
        self._replied = True
        self._cloud_log_h = ready.log_h
        if self._leave_out():
            return
        self._items.put_nowait(self.answer.take_public(ready.documents))
        self.session.rule.weigh(ready.log_h)
        self.session.set_horizon(ready.horizon)
        rejoined = not self.session.joint
        self._held = False
        if rejoined:
            self.session.join(self._base)
        if self.session.joint:
            position = len(self.session.committed) if rejoined else 0
            again = " again" if self._reported is False else ""
            reason = f"the cloud takes part{again}"
            self._report(PeerChanged(True, position, reason, unsearched=ready.unsearched))
        else:
            self._close_stream("too late")
        self.advance()

    def _leave_out(self) -> bool:
        """Drop the cloud if its documents weigh little beside the device's."""
        if self._request.mode.sends_up or self._cloud_log_h is None:
            return False
        if self._decoder is None or self._stream is None or self._plan.budget is not None:
            return False
        own = self._decoder.weighting.first.log_h
        weight = 1.0 - device_weight(own, self._cloud_log_h) / ETA_ONE
        if weight < self._plan.least_weight:
            self.answer.take_public(())
            self._close_stream("not needed")
            self._give_up("the cloud's documents have little to add")
            return True
        return False

    def _lose(self, reason: str) -> None:
        if self.session.joint or self._held:
            self._held = False
            self.session.lose()
            self._report_alone(reason)
            self.advance()

    def _report_departure(self) -> None:
        """Report that the session dropped the cloud: its context is full, or the sides disagree."""
        if self.session.joint or self._held or self._reported is False:
            return
        full = len(self.session.committed) >= self.session.limits.horizon
        self._report_alone(
            "the cloud's context is full" if full else "the two sides could not agree"
        )
        self._close_stream("lost")

    def _report_alone(self, reason: str, *, refused: bool = False) -> None:
        alone_since = self.session.membership.alone_since
        self._report(PeerChanged(False, alone_since, reason, refused))

    def _report(self, change: PeerChanged) -> None:
        if self._reported is not change.joint:
            self._reported = change.joint
            self._items.put_nowait(change)

    def _give_up(self, reason: str) -> None:
        """Write the rest alone, whether or not there is a connection."""
        self._link.attached.discard(self)
        self._end_stream(reason)

    def _end_stream(self, reason: str) -> None:
        """The stream was closed by the other side, or with the connection."""
        self._stream = None
        self._lose(reason)

    def _close_stream(self, reason: str) -> None:
        if self._stream is not None:
            self._link.close(self._stream, reason)
            self._stream = None

    async def _watch(self) -> None:
        """The only clock of a run: the deadline of the first token, and stalls."""
        lateness = Lateness(
            time.monotonic(), self._deadline, self._pace, bounded=not self._request.mode.waits
        )
        while True:
            await asyncio.sleep(_WATCH_S)
            match lateness.look(self._seen()):
                case Failure.LATE:
                    self._lose(_LATE)
                case Failure.SILENT if self._stream is not None:
                    self._link.drop(self._stream, "the peer does not answer")
                case Failure.SLOW:
                    self._close_stream("does not go on")
                    self._give_up(_SLOW)
                case Failure.STALLED:
                    self.session.stalled()
                    self._report_departure()
                    self.advance()

    def _seen(self) -> Seen:
        now = time.monotonic()
        return Seen(
            now=now,
            written=len(self.session.committed),
            busy=self.session.busy,
            joint=self.session.joint and self._stream is not None,
            ready=self._replied,
            held=self._held,
            received=now if self._stream is None else self._link.last_received(self._stream),
            resyncs=self.session.resyncs,
            sharing=self._engine.sharing,
        )

    # The answer as it is written.

    def _begin(self, decoder: Decoder) -> None:
        super()._begin(decoder)
        self._watcher = asyncio.create_task(self._watch())
        if not self.session.joint and not self._held:
            self._report(PeerChanged(False, 0, self._link.status.away))

    def _send(self, message: SessionMessage) -> None:
        if self._stream is None:
            return
        if self._link.send(message, self._stream) and isinstance(message, Draft | Correction):
            last = len(message.tokens) - 1 if isinstance(message, Correction) else 0
            position = max(0, message.position + last)
            self.answer.trace.draft(Role.DEVICE, position, message.decode_us)

    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        self._report_departure()
        super()._commit(tokens, settled)

    def _part(self, reason: str) -> None:
        self._forget_time()
        if self._watcher is not None:
            self._watcher.cancel()
        self._link.attached.discard(self)
        self._close_stream(reason)


class Failure(Enum):
    """How the cloud fails an answer."""

    LATE = auto()  # the first token is overdue
    SILENT = auto()  # nothing has come on its connection
    SLOW = auto()  # the answer has waited too long for it in total
    STALLED = auto()  # messages come, but no token is agreed on


@dataclass(frozen=True)
class Seen:
    """An answer at one moment; times are those of the monotonic clock, in seconds.

    The cloud takes part if `joint`, and has reported its documents if `ready`; the answer waits for
    its room if `held`. `received` is when anything last came on its connection; `sharing` is how
    many answers the engine writes.
    """

    now: float
    written: int
    busy: bool
    joint: bool
    ready: bool
    held: bool
    received: float
    resyncs: int
    sharing: int


class Lateness:
    """Checks an answer periodically, from `began` on.

    Its first token may wait until `deadline`, in seconds, or indefinitely if that is None; if
    `bounded`, the whole answer waits no longer than a reader would.
    """

    def __init__(self, began: float, deadline: float | None, pace: Pace, *, bounded: bool) -> None:
        self._began = self._quiet_since = self._then = began
        self._deadline = math.inf if deadline is None else deadline
        self._pace = pace
        self._bounded = bounded
        self._written = 0
        self._waited = 0.0

    def look(self, seen: Seen) -> Failure | None:
        """The failure at this moment, if any."""
        now, then = seen.now, self._then
        self._then = now
        # Messages alone are no progress: a peer could send them forever.
        if seen.busy or seen.written != self._written:
            self._written, self._quiet_since = seen.written, now
        elif seen.joint and seen.ready:
            self._waited += now - then
        # Many answers at once delay one another: that is not the cloud's lateness.
        crowd = max(1.0, seen.sharing / _CROWD)
        late = now - self._began > self._deadline * crowd
        if seen.held and late:
            return Failure.LATE
        if not seen.joint:
            return None
        if self._deadline == math.inf and not seen.ready:
            self._quiet_since = now  # however long it takes: the connection has its own watchdog
            return None
        stall, quiet = self._pace.stall_limit(), now - self._quiet_since
        if min(quiet, now - seen.received) > stall:
            return Failure.SILENT
        if not seen.ready:
            return Failure.LATE if late else None
        if self._bounded and self._waited > self._patience() * crowd:
            return Failure.SLOW  # whatever it sends or says about its pace
        if quiet > stall * 2**seen.resyncs:
            self._quiet_since = now
            return Failure.STALLED
        return None

    def _patience(self) -> float:
        """The most seconds that the answer may have waited for the cloud by now, in total.

        Per token, that is a pace at which people still read along, and the round trip: a distant
        peer is not slow.
        """
        round_trip = min(1.0, self._pace.link.round_trip.value or 0.0)
        return _PATIENCE_S + self._written * (_PATIENCE_A_TOKEN_S + round_trip)
