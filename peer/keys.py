"""The keys of a peer's devices: some configured, others named in a file that it reloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragon.keys import KeyFile, NamedKey, digest_of, find

KEYS = "peer_keys.json"
"""In the data directory."""


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
        """Reload the file if it changed, and return whether it did. Raises `ConfigurationError`."""
        return self._named.refresh()

    @property
    def _all(self) -> tuple[DeviceKey, ...]:
        return self._set + self._named.existing
