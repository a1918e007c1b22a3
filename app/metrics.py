"""What Prometheus can read of the device: requests, answers, tokens, the peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from app.generation.events import Event, Finished, GenerationRequest, TextDelta
from dragon.inference.estimates import READINGS, Pace

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """One registry an app, so that two apps in a process do not share counters."""

    def __init__(
        self, peer_connected: Callable[[], bool], free_slots: Callable[[], float], pace: Pace
    ) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        Gauge(
            "dragon_peer_connected",
            "1 while the link to the cloud peer is up.",
            registry=self.registry,
        ).set_function(lambda: float(peer_connected()))
        Gauge(
            "dragon_free_slots", "Rows that could begin now.", registry=self.registry
        ).set_function(free_slots)
        for name, text in READINGS.items():
            gauge = Gauge(f"dragon_{name}", text, registry=self.registry)
            gauge.set_function(partial(pace.reading, name))
        self._requests = Counter(
            "dragon_http_requests",
            "HTTP requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._duration = Histogram(
            "dragon_http_request_seconds",
            "From a request's head to the end of its response.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._answers = Counter(
            "dragon_answers",
            "Answers, by how they ended.",
            ("mode", "outcome"),
            registry=self.registry,
        )
        self._writing = Gauge(
            "dragon_answers_in_progress", "Answers being written now.", registry=self.registry
        )
        self._first_text = Histogram(
            "dragon_first_text_seconds",
            "From a request for an answer to its first text.",
            ("mode",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._tokens = Counter(
            "dragon_tokens",
            "Tokens of prompts and of answers.",
            ("kind",),
            registry=self.registry,
        )

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one HTTP request under its route's template, never under its raw path."""
        self._requests.labels(method, route, str(status)).inc()
        self._duration.labels(route).observe(seconds)

    async def followed(
        self, request: GenerationRequest, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """The same events, counted; closing this closes `events`."""
        started: float | None = time.perf_counter()
        outcome = "error"
        self._writing.inc()
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, TextDelta) and started is not None:
                        self._first_text.labels(request.mode).observe(time.perf_counter() - started)
                        started = None
                    elif isinstance(event, Finished):
                        outcome = event.reason
                        self._tokens.labels("prompt").inc(event.prompt_tokens)
                        self._tokens.labels("answer").inc(event.completion_tokens)
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            if outcome == "error":
                outcome = "cancelled"
            raise
        finally:
            self._writing.dec()
            self._answers.labels(request.mode, outcome).inc()
