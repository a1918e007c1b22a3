"""The keys of a peer's devices, and how many tokens each has had today.

Some keys are configured, others named in a file that the peer reloads. Usage is kept in a file, so
that a restart does not reset it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from dragon.keys import KeyFile, NamedKey, digest_of, find
from dragon.whole_file import write_whole

log = logging.getLogger(__name__)

# In the data directory.
KEYS = "peer_keys.json"
USAGE = "peer_usage.json"


class DeviceKey(NamedKey):
    """A key and its devices' limits; None leaves a limit to the peer."""

    tokens_a_day: Annotated[int | None, Field(ge=1)] = None
    answers: Annotated[int | None, Field(ge=1)] = None
    share: Annotated[float, Field(gt=0, le=100)] = 1.0


def key_file(data_dir: Path) -> KeyFile[DeviceKey]:
    return KeyFile(data_dir / KEYS, DeviceKey)


class KeyRing:
    """The keys admitted now. Without any, and without a key file, everybody is admitted."""

    def __init__(self, given: Sequence[str], named: KeyFile[DeviceKey]) -> None:
        self._set = tuple(
            DeviceKey(name=f"set {number}", digest=digest_of(key))
            for number, key in enumerate(given, start=1)
        )
        self._named = named
        named.refresh()

    @property
    def open(self) -> bool:
        """Whether no key is required. Revoking the last key does not open the peer."""
        return not self._set and not self._named.exists

    def find(self, given: str) -> DeviceKey | None:
        return find(self._all, given)

    def current(self, key: DeviceKey) -> DeviceKey | None:
        """The current version of a key; None once it is revoked."""
        return next((each for each in self._all if each.digest == key.digest), None)

    def refresh(self) -> bool:
        """As `KeyFile.refresh`."""
        return self._named.refresh()

    @property
    def _all(self) -> tuple[DeviceKey, ...]:
        return self._set + self._named.existing


class _Kept(BaseModel):
    day: str
    tokens: dict[str, int]


class KeyUsage:
    """Tokens by key's name since midnight, UTC."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._day = _today()
        self._tokens = Counter[str]()
        self._kept = True
        try:
            kept = _Kept.model_validate_json(path.read_bytes())
            if kept.day == self._day:
                self._tokens.update(kept.tokens)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
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
        text = _Kept(day=self._day, tokens=self._tokens).model_dump_json()
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
