"""State that the peer's connections share, its metrics, and the limits of keys."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge

from dragon.errors import OverloadedError
from dragon.inference.engine import Engine
from dragon.inference.estimates import READINGS, DecodeDelay, Estimate, Pace
from dragon.inference.fairness import Household
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.localizable import localizable
from peer.keys import DeviceKey, KeyRing, KeyUsage, seconds_to_midnight

if TYPE_CHECKING:
    from peer.server import DeviceConnection
    from peer.serving import Retriever

_LASTING_S = 5.0  # of an answer, before one has ended
_MOST_S = 30.0  # until a device that found no room comes back


class PeerMetrics:
    """Counters and gauges in their own registry."""

    def __init__(self, free_slots: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        self.answers = counter("dragon_peer_answers", "Answers the peer has taken part in")
        self.sessions = gauge("dragon_peer_sessions", "Answers being written now")
        self.sent_bytes = counter("dragon_peer_sent_bytes", "Bytes of frames sent to devices")
        self.key_answers = counter(
            "dragon_peer_key_answers", "Answers the peer has taken part in, by key's name", ["key"]
        )
        self.key_tokens = counter(
            "dragon_peer_key_tokens", "Tokens of questions and answers, by key's name", ["key"]
        )
        self.key_refusals = counter(
            "dragon_peer_key_refusals",
            "Answers the peer had no room for, or the key no tokens, by key's name",
            ["key"],
        )
        self.key_sessions = gauge(
            "dragon_peer_key_sessions", "Answers being written now, by key's name", ["key"]
        )
        self.paces: set[Pace] = set()
        for name, text in READINGS.items():
            reading = gauge(f"dragon_peer_{name}", text)
            reading.set_function(partial(self._reading, name))
        gauge("dragon_peer_free_slots", "Rows that could begin now").set_function(free_slots)

    def _reading(self, name: str) -> float:
        """The mean over connections with a value; NaN if none has one."""
        values = [value for pace in self.paces if not math.isnan(value := pace.reading(name))]
        return sum(values) / len(values) if values else math.nan


@dataclass
class ReturnTimes:
    """When devices that found no room should come back: staggered, not all at once."""

    _last: float = 0.0

    def next(self, now: float, lasting_s: float, under_way: int) -> int:
        """Seconds, 1 to 30, until one more has ended: one does every lasting_s / under_way."""
        last = max(self._last, now) + lasting_s / under_way
        self._last = min(last, now + _MOST_S)
        return max(1, math.ceil(self._last - now))


@dataclass
class Holder:
    """The owner of a key over all its connections; without keys, the holder of one connection."""

    household: Household
    key: DeviceKey | None = None
    sessions: int = 0
    queued_bytes: int = 0
    turns: ReturnTimes = field(default_factory=ReturnTimes)

    def renew(self, key: DeviceKey) -> None:
        self.key, self.household = key, Household(key.digest, key.share)


@dataclass
class Shared:
    """State that all connections share; `sessions` counts their open streams.

    `lasting` estimates how many seconds a stream stays open; `turns` are for streams the peer had
    no room for. `draining` means that the peer is shutting down.
    """

    engine: Engine
    tokenizer: Tokenizer
    retriever: Retriever
    hello: control.Hello
    max_sessions: int
    metrics: PeerMetrics
    decode: DecodeDelay
    keys: KeyRing
    usage: KeyUsage
    sessions: int = 0
    lasting: Estimate = field(default_factory=Estimate)
    turns: ReturnTimes = field(default_factory=ReturnTimes)
    draining: bool = False
    connections: set[DeviceConnection] = field(default_factory=set)
    holders: WeakValueDictionary[str, Holder] = field(default_factory=WeakValueDictionary)

    @property
    def load(self) -> float:
        """The fraction of the slots for answers that are taken."""
        return min(1.0, self.sessions / self.max_sessions)

    def holder(self, key: DeviceKey | None, connection: str) -> Holder:
        """The holder of a key or, without one, of a connection."""
        if key is None:
            return Holder(Household(connection))
        holder = self.holders.setdefault(key.digest, Holder(Household(key.digest)))
        holder.renew(key)
        return holder

    def admit(self, holder: Holder) -> None:
        """Raises `OverloadedError`, with a retry time, if a holder may open no more streams now."""
        key = holder.key
        if key and key.tokens_a_day and self.usage.of(key.name) >= key.tokens_a_day:
            raise OverloadedError(
                localizable(
                    "peer.tokens",
                    "the key has had its {count} tokens of today at the cloud peer; it has more "
                    "from midnight, UTC",
                    count=key.tokens_a_day,
                ),
                retry_s=seconds_to_midnight(datetime.now(UTC)),
            )
        # A single holder must not keep out all others.
        most = (key and key.answers) or max(1, self.max_sessions // 2)
        if holder.sessions >= most:
            raise OverloadedError(
                localizable(
                    "peer.answers",
                    "the cloud peer writes no more than {count} answers at once for one key",
                    count=most,
                ),
                retry_s=self._again(holder.turns, holder.sessions),
            )
        if self.sessions >= self.max_sessions:
            raise OverloadedError(
                localizable("peer.full", "the cloud peer is writing as many answers as it can"),
                retry_s=self._again(self.turns, self.sessions),
            )

    def _again(self, turns: ReturnTimes, under_way: int) -> int:
        return turns.next(time.monotonic(), self.lasting.value or _LASTING_S, under_way)

    def began(self, holder: Holder) -> None:
        self.metrics.answers.inc()
        if holder.key is not None:
            self.metrics.key_answers.labels(holder.key.name).inc()
        self._count(holder, 1)

    def refused(self, holder: Holder) -> None:
        if holder.key is not None:
            self.metrics.key_refusals.labels(holder.key.name).inc()

    def ended(self, holder: Holder, tokens: int, seconds: float) -> None:
        """A stream ended after `seconds`, with `tokens` read and written."""
        self._count(holder, -1)
        self.lasting.add(seconds)
        if holder.key is not None:
            self.metrics.key_tokens.labels(holder.key.name).inc(tokens)
            self.usage.add(holder.key.name, tokens)

    def _count(self, holder: Holder, opened: int) -> None:
        self.sessions += opened
        holder.sessions += opened
        self.metrics.sessions.set(self.sessions)
        if holder.key is not None:
            self.metrics.key_sessions.labels(holder.key.name).set(holder.sessions)
