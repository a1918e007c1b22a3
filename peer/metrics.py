"""The peer's Prometheus metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from dragon.inference.estimates import READINGS, Pace


class PeerMetrics:
    """Counters and gauges in their own registry."""

    def __init__(self, free_slots: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        self.answers = counter("dragon_peer_answers", "Answers the peer has taken part in")
        self.sessions = gauge("dragon_peer_sessions", "Answers being written now")
        self.sent_bytes = counter("dragon_peer_sent_bytes", "Bytes of frames sent to devices")
        self._key_answers = counter(
            "dragon_peer_key_answers", "Answers the peer has taken part in, by key's name", ["key"]
        )
        self._key_tokens = counter(
            "dragon_peer_key_tokens", "Tokens of questions and answers, by key's name", ["key"]
        )
        self._key_refusals = counter(
            "dragon_peer_key_refusals",
            "Answers the peer had no room for, or the key no tokens, by key's name",
            ["key"],
        )
        self._key_sessions = gauge(
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

    def began(self, key: str) -> None:
        """A stream was opened; `key` is the name of its key, empty without one."""
        self.answers.inc()
        if key:
            self._key_answers.labels(key).inc()

    def had(self, key: str, tokens: int) -> None:
        """A stream ended, after this many tokens."""
        if key:
            self._key_tokens.labels(key).inc(tokens)

    def refused(self, key: str) -> None:
        """A stream was not opened."""
        if key:
            self._key_refusals.labels(key).inc()

    def open_now(self, sessions: int, key: str, of_key: int) -> None:
        """How many streams are open, and how many of them are this key's."""
        self.sessions.set(sessions)
        if key:
            self._key_sessions.labels(key).set(of_key)

    def render(self) -> bytes:
        return generate_latest(self.registry)
