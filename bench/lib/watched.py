"""How a service fares under load: whether it answers, and how much memory it takes."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import numpy as np

from harness.memory import resident
from harness.services import Service


class Watched:
    """Polls a service's `/health` during a `with` block."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._over = threading.Event()
        self._taken: list[float] = []
        self._failed = 0
        self._before = resident(service.process.pid)
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def row(self) -> dict[str, Any]:
        """What was seen."""
        return {
            "health": round(float(np.percentile(self._taken, 99)), 1),
            "health_failed": self._failed,
            "grown": round(resident(self._service.process.pid) - self._before, 1),
        }

    def _ask(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._over.wait(0.02):
                began = time.perf_counter()
                try:
                    client.get(f"{self._service.url}/health").raise_for_status()
                except httpx.HTTPError:
                    self._failed += 1
                self._taken.append(1000 * (time.perf_counter() - began))
