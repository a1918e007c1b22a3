"""What the peer counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class PeerMetrics:
    """Counters and gauges in a registry of their own."""

    def __init__(self, free_slots: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "dragon_peer_answers", "Answers the peer has taken part in", registry=self.registry
        )
        self.sessions = Gauge(
            "dragon_peer_sessions", "Answers being written now", registry=self.registry
        )
        self.sent_bytes = Counter(
            "dragon_peer_sent_bytes", "Bytes of frames sent to devices", registry=self.registry
        )
        slots = Gauge("dragon_peer_free_slots", "Rows that could begin now", registry=self.registry)
        slots.set_function(free_slots)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
