"""One answer being written on the device: its session, its text, and the peer's comings and goings.

The peer may be late, go away, or come back at any token. None of that is an error: the device goes
on alone from the last committed token, says so once, and lets the peer in again when it can.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from app.events import (
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    Source,
    SourcesFound,
    TextDelta,
)
from app.link import Link
from dragon.decoder import Decoder, Row
from dragon.driver import Driver
from dragon.engine import Engine
from dragon.errors import DragonError
from dragon.link import messages
from dragon.pacing import Estimate, Pace
from dragon.protocol import Draft, Limits, Role, SessionMessage
from dragon.sampling import Mode
from dragon.session import Session
from dragon.tokenizer import TextStream, Tokenizer
from dragon.tokenwise import TokenwiseSession

_WATCH_S = 0.1


@dataclass(frozen=True)
class Retrieved:
    """Rows of this side, and the documents behind them; none behind a bare row."""

    rows: Sequence[Row]
    sources: Sequence[Source]


@dataclass
class _Clock:
    """When things happened, in seconds of the monotonic clock."""

    started: float = field(default_factory=time.monotonic)
    first: float | None = None
    decoding: float | None = None


@dataclass
class _Sent:
    """What went out to the peer for this answer."""

    frames: int = 0
    bytes: int = 0


class Answer:
    """An async context: entered it holds a place on the link, left it frees both sides."""

    def __init__(
        self,
        request: GenerationRequest,
        *,
        engine: Engine,
        tokenizer: Tokenizer,
        link: Link | None,
        decode_time: Estimate,
        deadline: float | None,
        catch_up: bool,
        top_k: int,
        limit: int,
    ) -> None:
        self._request = request
        self._engine = engine
        self._tokenizer = tokenizer
        self._link = link
        self._deadline = deadline
        self._catch_up = catch_up
        self._top_k = top_k
        self._limit = limit
        self._pace = Pace(link.round_trip if link is not None else Estimate(), decode_time)
        self._remote_decode = Estimate()
        self._events: asyncio.Queue[Event | DragonError] = asyncio.Queue()
        self._text = TextStream(tokenizer, request.stop)
        self._clock = _Clock()
        self._sent = _Sent()
        self._sources: list[Source] = []
        self._document_tokens = 0
        self._generation: int | None = None
        self._ready = False
        self._base = 0
        self._decoder: Decoder | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        kind = TokenwiseSession if request.mode is Mode.TOKENWISE else Session
        self._session = kind(
            Role.DEVICE,
            request.sampling,
            Limits(tokenizer.end_ids, limit),
            joint=link is not None and link.connected,
            catch_up=catch_up,
        )
        self._was_joint = self._session.joint
        self._driver = Driver(
            self._session,
            engine,
            self._pace,
            post=self._post,
            send=self._send,
            committed=self._commit,
            failed=self._events.put_nowait,
        )
        self.over = False

    async def __aenter__(self) -> Answer:
        if self._link is not None:
            self._link.attached.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._driver.close()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._link is not None:
            self._link.attached.discard(self)
            self._leave_peer("finished" if self.over else "cancelled")
        if self._decoder is not None:
            self._engine.close(self._decoder)

    # In order, by the service.

    def ask_peer(self) -> None:
        """Open the answer on the peer, which looks for its documents while the device does."""
        if self._link is None or not self._link.connected:
            return
        session, sampling = self._session, self._request.sampling
        self._base = len(session.committed)
        self._ready = False
        self._generation = self._link.open(self)
        message = messages.Open(
            generation=self._generation,
            conversation=self._request.conversation,
            raw=self._request.raw,
            query=self._request.query[-messages.MAX_QUERY :],
            mode=self._request.mode,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed,
            stream=sampling.stream,
            max_tokens=self._limit,
            top_k=self._top_k,
            catch_up=self._catch_up,
            committed=tuple(session.committed),
            joint=session.joint,
        )
        self._count(len(frame := messages.encode(message)))
        self._link.send(frame)

    async def begin(self, retrieved: Retrieved) -> None:
        """Prefill, and start writing. Raises `ContextLengthError` when no token fits."""
        opened: asyncio.Future[DragonError | None] = self._loop.create_future()

        def settle(problem: DragonError | None) -> None:
            if not opened.done():  # the answer may have been given up meanwhile
                opened.set_result(problem)

        decoder = self._engine.open(
            retrieved.rows,
            self._request.conversation,
            lambda problem: self._post(lambda: settle(problem)),
        )
        self._decoder = decoder
        if self._limit > decoder.horizon:
            self._session.limits = replace(self._session.limits, tokens=decoder.horizon)
        weights = decoder.weights.tolist()
        self._document_tokens += sum(len(row.tokens) for row in retrieved.rows)
        self._sources += [
            replace(source, weight=weight)
            for source, weight in zip(retrieved.sources, weights, strict=False)
        ]
        self._events.put_nowait(SourcesFound(tuple(self._sources)))
        if (problem := await opened) is not None:
            raise problem
        self._clock.decoding = time.monotonic()
        self._watcher = asyncio.create_task(self._watch())
        if self._link is not None and not self._session.joint:
            self._events.put_nowait(PeerChanged(False, 0, self._link.status.detail))
        self._driver.start(decoder)

    async def next_event(self) -> Event:
        """The next event; raises `DragonError` when the model failed."""
        event = await self._events.get()
        if isinstance(event, DragonError):
            raise event
        self.over = isinstance(event, Finished)
        return event

    # By the link.

    def peer_ready(self, ready: messages.Ready) -> None:
        """The peer has its documents: it takes part from here on."""
        self._ready = True
        self._driver.activity += 1
        public = [
            Source(
                side="public",
                id=document.id,
                title=document.title,
                text=document.text,
                score=document.score,
                weight=document.weight,
            )
            for document in ready.documents
        ]
        self._sources = [s for s in self._sources if s.side == "private"] + public
        self._document_tokens += sum(len(self._tokenizer.encode(s.text)) for s in public)
        self._events.put_nowait(SourcesFound(tuple(self._sources)))
        self._session.set_horizon(ready.horizon)
        rejoined = not self._session.joint
        if rejoined:
            self._session.join(self._base)
        if self._session.joint:
            self._was_joint = True
            reason = "the cloud takes part again" if rejoined else "the cloud takes part"
            position = len(self._session.committed) if rejoined else 0
            self._events.put_nowait(PeerChanged(True, position, reason))
        self._driver.advance()

    def peer_said(self, message: SessionMessage) -> None:
        """A draft, or a request to resync."""
        if isinstance(message, Draft):
            self._remote_decode.add(message.decode_us / 1e6)
        self._driver.receive(message)
        self._note_loss()

    def peer_failed(self, message: str) -> None:
        """The peer has given this answer up; it is not asked again for it."""
        self._generation = None
        if self._link is not None:
            self._link.attached.discard(self)
        self._lose(message)

    def link_up(self) -> None:
        """A connection again: ask the peer to come in where the answer is by now."""
        if not self._session.joint and not self._session.finished:
            self.ask_peer()

    def link_down(self) -> None:
        """The connection is gone."""
        self._generation = None
        self._lose("the connection to the cloud was lost")

    # Inside.

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    def _send(self, message: SessionMessage) -> None:
        if self._link is not None and self._generation is not None:
            self._count(self._link.say(self._generation, message))

    def _count(self, size: int) -> None:
        self._sent.frames += 1
        self._sent.bytes += size

    def _commit(self, tokens: list[int]) -> None:
        self._note_loss()
        self._clock.first = self._clock.first or time.monotonic()
        end_ids = self._session.limits.end_ids
        text = self._text.push([token for token in tokens if token not in end_ids])
        if self._session.finished and not self._text.stopped:
            text += self._text.finish()
        if text or not self._session.finished:
            self._events.put_nowait(TextDelta(text, tuple(tokens)))
        if self._session.finished or self._text.stopped:
            self._finish()

    def _finish(self) -> None:
        ended = self._session.committed[-1] in self._session.limits.end_ids or self._text.stopped
        self._driver.close()
        self._events.put_nowait(
            Finished(
                reason="stop" if ended else "length",
                prompt_tokens=len(self._request.conversation),
                completion_tokens=len(self._session.committed),
                participation=self._session.intervals(),
                stats=self._statistics(),
            )
        )

    def _statistics(self) -> dict[str, float]:
        clock, tokens = self._clock, len(self._session.committed)
        agreement, now = self._session.agreement, time.monotonic()
        stats = {
            "ttft_ms": 1000 * ((clock.first or now) - clock.started),
            "ms_per_token": 1000 * (now - (clock.decoding or now)) / max(1, tokens),
            "document_tokens": self._document_tokens,
            "sent_frames": self._sent.frames,
            "sent_bytes": self._sent.bytes,
        }
        if agreement.judged:
            stats["accept_device"] = agreement.own / agreement.judged
            stats["accept_cloud"] = agreement.remote / agreement.judged
            stats["tv"] = agreement.tv / agreement.judged
        if self._link is not None and self._link.round_trip.value is not None:
            stats["rtt_ms"] = 1000 * self._link.round_trip.value
        if self._decoder is not None and (cuts := self._decoder.statistics).count:
            stats["tv_wire"] = cuts.tv / cuts.count
        return {name: round(value, 4) for name, value in stats.items()}

    async def _watch(self) -> None:
        """The only clock of an answer: the deadline of the first token, and stalls."""
        began = quiet_since = time.monotonic()
        activity = self._driver.activity
        while True:
            await asyncio.sleep(_WATCH_S)
            now = time.monotonic()
            if self._driver.activity != activity:
                activity, quiet_since = self._driver.activity, now
            if self._link is None or not self._session.joint:
                continue
            stall = self._pace.stall_limit(self._remote_decode.value or 0.0)
            if min(now - quiet_since, now - self._link.last_heard) > stall:
                self._link.drop("the peer does not answer")
            elif not self._ready:
                if self._deadline is not None and now - began > self._deadline:
                    self._lose("the cloud is late")
            elif now - quiet_since > stall * 2**self._session.resyncs:
                quiet_since = now
                self._session.stalled()
                self._driver.advance()
                self._note_loss()

    def _lose(self, reason: str) -> None:
        if self._session.joint:
            self._session.lose()
            self._note_loss(reason)
            self._driver.advance()

    def _note_loss(self, reason: str = "the two sides could not agree") -> None:
        """Say once that the cloud no longer takes part, if the session has just let it go."""
        if self._session.joint or not self._was_joint:
            return
        self._was_joint = False
        ended = self._session.participation
        position = ended[-1][1] if ended else 0
        if position >= self._session.limits.horizon:
            reason = "the cloud's context is full"
        self._events.put_nowait(PeerChanged(False, position, reason))

    def _leave_peer(self, reason: str) -> None:
        if self._link is not None and self._generation is not None:
            self._link.close(self._generation, reason)
            self._generation = None
