"""Each key's tokens of today, in a file, so that a restart does not reset the count."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from dragon.whole_file import write_whole

log = logging.getLogger(__name__)

USAGE = "peer_usage.json"
"""In the data directory."""


class KeyUsage:
    """Tokens by key's name since midnight, UTC."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._day = _today()
        self._tokens = Counter[str]()
        self._kept = True
        try:
            kept = json.loads(path.read_bytes())
            if kept["day"] == self._day:
                self._tokens.update(
                    {str(name): int(count) for name, count in kept["tokens"].items()}
                )
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s cannot be read, so today's usage starts at zero: %s", path, error)

    def add(self, name: str, tokens: int) -> None:
        self._turn_over()
        self._tokens[name] += tokens
        self._kept = False

    def of(self, name: str) -> int:
        self._turn_over()
        return self._tokens[name]

    async def keep(self) -> None:
        """Write what has changed; after a disk error, try again next time."""
        if self._kept:
            return
        self._kept = True
        text = json.dumps({"day": self._day, "tokens": self._tokens})
        try:
            await asyncio.to_thread(write_whole, self._path, text)
        except OSError as error:
            self._kept = False
            log.warning("%s cannot be written: %s", self._path, error)

    def _turn_over(self) -> None:
        if (today := _today()) != self._day:
            self._day = today
            self._tokens.clear()


def seconds_to_midnight(now: datetime) -> int:
    """Seconds from a UTC time until the next day begins; at least 1."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    return math.ceil((midnight - now).total_seconds())


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
