"""The device's metrics for Prometheus: requests, answers, tokens, the peer."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from app.generation.accumulator import AnswerState
from app.generation.events import Event, Finished, TextDelta
from dragon.inference.estimates import READINGS, Pace

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """One registry per app, so that two apps in a process do not share counters."""

    def __init__(
        self, peer_connected: Callable[[], bool], free_slots: Callable[[], float], pace: Pace
    ) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        connected = gauge("dragon_peer_connected", "1 while the link to the cloud peer is up.")
        connected.set_function(lambda: float(peer_connected()))
        gauge("dragon_free_slots", "Rows that could begin now.").set_function(free_slots)
        for name, text in READINGS.items():
            gauge(f"dragon_{name}", text).set_function(partial(pace.reading, name))
        self._requests = counter(
            "dragon_http_requests", "HTTP requests answered.", ("method", "route", "status")
        )
        self._duration = seconds(
            "dragon_http_request_seconds",
            "From a request's head to the end of its response.",
            ("route",),
        )
        self._answers = counter(
            "dragon_answers", "Answers, by how they ended.", ("mode", "outcome")
        )
        self._writing = gauge("dragon_answers_in_progress", "Answers being written now.")
        self._first_text = seconds(
            "dragon_first_text_seconds",
            "From a request for an answer to its first text.",
            ("mode",),
        )
        self._tokens = counter("dragon_tokens", "Tokens of prompts and of answers.", ("kind",))
        self._waiting: dict[str, float] = {}  # start times, by the ids of answers without text

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one HTTP request under its route's template, never under its raw path."""
        self._requests.labels(method, route, str(status)).inc()
        self._duration.labels(route).observe(seconds)

    # Observes answers (`app.generation.accumulator.AnswerObserver`).

    def begun(self, answer: AnswerState) -> None:
        self._writing.inc()
        self._waiting[answer.request.id] = time.perf_counter()

    def observed(self, answer: AnswerState, event: Event) -> None:
        """Measure the time to the first text, count tokens at the end."""
        if isinstance(event, TextDelta):
            if (since := self._waiting.pop(answer.request.id, None)) is not None:
                waited = time.perf_counter() - since
                self._first_text.labels(answer.request.mode).observe(waited)
        elif isinstance(event, Finished):
            self._tokens.labels("prompt").inc(event.prompt_tokens)
            self._tokens.labels("answer").inc(event.completion_tokens)

    def over(self, answer: AnswerState, *, cancelled: bool) -> None:
        self._waiting.pop(answer.request.id, None)
        self._writing.dec()
        unfinished = "cancelled" if cancelled else "error"
        outcome = answer.end.reason if answer.finished else unfinished
        self._answers.labels(answer.request.mode, outcome).inc()
