"""One answer being written on the device: its session, its text, and the events it makes."""

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
    Source,
    SourcesFound,
    TextDelta,
)
from app.link import Link
from app.partner import Partner
from dragon.decoder import Decoder, Row
from dragon.driver import Driver
from dragon.engine import Engine
from dragon.errors import DragonError
from dragon.link import messages
from dragon.modes import Start, session_of
from dragon.pacing import Pace
from dragon.protocol import Limits, Role, SessionMessage
from dragon.tokenizer import TextStream, Tokenizer
from dragon.weighting import Rescoring


@dataclass(frozen=True)
class Retrieved:
    """Rows of this side, and the documents behind them; none behind a bare row.

    `nothing_relevant`: documents were looked for in vain.
    """

    rows: Sequence[Row]
    sources: Sequence[Source]
    rescoring: Rescoring | None = None
    nothing_relevant: bool = False


@dataclass(frozen=True)
class Plan:
    """How to write: documents a side, token limit, seconds to wait for the cloud's first token.

    `rescore_every` so many tokens both sides weigh their documents anew, unless it is 0.
    """

    top_k: int
    limit: int
    deadline: float | None
    catch_up: bool
    rescore_every: int


@dataclass
class _Record:
    """What happened so far; times in seconds of the monotonic clock."""

    started: float = field(default_factory=time.monotonic)
    decoding: float | None = None
    first: float | None = None
    tokens: int = 0
    sent_frames: int = 0
    sent_bytes: int = 0


class Answer:
    """An async context; left it frees both sides. Without a `link` the device writes alone."""

    def __init__(
        self,
        request: GenerationRequest,
        plan: Plan,
        *,
        engine: Engine,
        tokenizer: Tokenizer,
        link: Link | None,
        pace: Pace,
    ) -> None:
        self._request = request
        self._engine = engine
        self._tokenizer = tokenizer
        self._link = link
        self._events: asyncio.Queue[Event | DragonError] = asyncio.Queue()
        self._text = TextStream(tokenizer, request.stop)
        self._record = _Record()
        self._sources: list[Source] = []
        self._nothing_relevant = False
        self._decoder: Decoder | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        limits = Limits(tokenizer.end_ids, plan.limit)
        self._session = session_of(
            Start(request.mode, request.sampling, limits, plan.catch_up, request.schedule),
            Role.DEVICE,
            pace,
            joint=link is not None and link.connected,
        )
        self._driver = Driver(
            self._session,
            engine,
            self._pace,
            post=self._post,
            send=self._send,
            committed=self._commit,
            failed=self._events.put_nowait,
        )
        self._partner: Partner | None = None
        if link is not None:
            self._partner = Partner(
                _opening(request, plan),
                link,
                self._session,
                self._driver,
                self._pace,
                plan.deadline,
                found=self._found_public,
                tell=self._events.put_nowait,
            )
        self.over = False

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release("cancelled")

    # In order, by the service.

    def ask_peer(self) -> None:
        """Open the answer on the peer, which looks for its documents while the device does."""
        if self._partner is not None:
            self._partner.ask()

    async def begin(self, retrieved: Retrieved) -> None:
        """Prefill, and start writing. Raises `ContextLengthError` when no token fits."""
        self._decoder = decoder = self._engine.open(
            retrieved.rows, self._request.conversation, retrieved.rescoring
        )
        limits = self._session.limits
        self._session.limits = replace(limits, tokens=min(limits.tokens, decoder.horizon))
        # Documents concatenated in one row have its weight.
        weights = decoder.weights.tolist() * max(1, len(retrieved.sources) // len(retrieved.rows))
        self._sources += [
            replace(source, weight=weight)
            for source, weight in zip(retrieved.sources, weights, strict=False)
        ]
        self._nothing_relevant = retrieved.nothing_relevant
        self._tell_sources()
        await asyncio.wrap_future(decoder.prefilled)
        self._record.decoding = time.monotonic()
        if self._partner is not None:
            self._watcher = asyncio.create_task(self._partner.watch())
            self._partner.begun()
        self._driver.start(decoder)

    async def next_event(self) -> Event:
        """The next event; raises `DragonError` when the model failed."""
        event = await self._events.get()
        if isinstance(event, DragonError):
            raise event
        self.over = isinstance(event, Finished)
        return event

    # Inside.

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    def _send(self, message: SessionMessage) -> None:
        if self._partner is not None and (size := self._partner.send(message)):
            self._record.sent_frames += 1
            self._record.sent_bytes += size

    def _found_public(self, sources: list[Source]) -> None:
        self._sources = [s for s in self._sources if s.side == "private"] + sources
        self._tell_sources()

    def _tell_sources(self) -> None:
        found = SourcesFound(tuple(self._sources), self._nothing_relevant)
        self._events.put_nowait(found)

    def _commit(self, tokens: list[int]) -> None:
        if self._partner is not None:
            self._partner.note()
        self._record.first = self._record.first or time.monotonic()
        end_ids = self._session.limits.end_ids
        text = ""
        taken = 0
        # One by one, so that what follows a stop string is never counted, however many came.
        while taken < len(tokens) and not self._text.stopped:
            token = tokens[taken]
            taken += 1
            if token not in end_ids:
                text += self._text.push([token])
        self._record.tokens += taken
        over = self._session.finished or self._text.stopped
        if over:
            text += self._text.finish()
        if text or not over:
            self._events.put_nowait(TextDelta(text, tuple(tokens[:taken])))
        if over:
            self._finish()

    def _finish(self) -> None:
        count = self._record.tokens
        last = self._session.committed[count - 1]
        ended = self._text.stopped or last in self._session.limits.end_ids
        intervals = self._session.intervals()
        self._events.put_nowait(
            Finished(
                reason="stop" if ended else "length",
                prompt_tokens=len(self._request.conversation),
                completion_tokens=count,
                participation=tuple((a, min(b, count)) for a, b in intervals if a < count),
                stats=self._statistics(),
                verdicts=_verdicts(self._session.agreement.verdicts[:count]),
            )
        )
        # Whether or not anybody reads on, both sides are free for others.
        self._release("finished")

    def _release(self, reason: str) -> None:
        """Free both sides; again is harmless."""
        self._driver.close()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._partner is not None:
            self._partner.leave(reason)
        if self._decoder is not None:
            self._engine.close(self._decoder)
            self._decoder = None

    def _statistics(self) -> dict[str, float]:
        record, agreement, now = self._record, self._session.agreement, time.monotonic()
        stats = {
            "ttft_ms": 1000 * ((record.first or now) - record.started),
            "prefill_ms": 1000 * ((record.decoding or now) - record.started),
            "ms_per_token": 1000 * (now - (record.decoding or now)) / max(1, record.tokens),
            "document_tokens": sum(len(self._tokenizer.encode(s.text)) for s in self._sources),
            "sent_frames": record.sent_frames,
            "sent_bytes": record.sent_bytes,
        }
        if agreement.verdicts:
            stats["accept_device"], stats["accept_cloud"] = agreement.acceptance()
            self._pace.accept_device.add(stats["accept_device"])
            self._pace.accept_cloud.add(stats["accept_cloud"])
            stats["tv"] = agreement.tv / len(agreement.verdicts)
            stats["window"] = self._session.window
        seconds = {"decode_device_ms": self._pace.decode.value}
        if self._partner is not None:
            seconds["rtt_ms"] = self._pace.link.round_trip.value
            seconds["decode_cloud_ms"] = self._pace.remote_decode.value
        for name, value in seconds.items():
            if value is not None:
                stats[name] = 1000 * value
        if self._decoder is not None and (cuts := self._decoder.statistics).count:
            stats["wire_mass"] = cuts.mass / cuts.count
            stats["wire_tv"] = cuts.tv / cuts.count
        return {name: round(value, 4) for name, value in stats.items()}


def _verdicts(verdicts: Sequence[tuple[bool, bool]]) -> str:
    """A character a position: both drafts were taken, the device's, the cloud's, or neither."""
    characters = {(True, True): "=", (True, False): "d", (False, True): "c", (False, False): "."}
    return "".join(characters[verdict] for verdict in verdicts)


def _opening(request: GenerationRequest, plan: Plan) -> messages.Open:
    """What the peer is told of a request."""
    return messages.Open(
        generation=0,
        conversation=request.conversation,
        raw=request.raw,
        query=request.query,
        mode=request.mode,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        seed=request.sampling.seed,
        stream=request.sampling.stream,
        max_tokens=plan.limit,
        top_k=plan.top_k,
        catch_up=plan.catch_up,
        schedule=request.schedule,
        rescore_every=plan.rescore_every,
    )
