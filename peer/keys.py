"""The keys of a peer's devices: some set, others named, in a file that changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragon.key_file import KeyFile, NamedKey, digest_of, find

KEYS = "peer_keys.json"
"""In the data directory."""


class Key(NamedKey):
    """A key, and what its devices may have; None leaves it to the peer."""

    tokens_a_day: Annotated[int | None, Field(ge=1)] = None
    answers: Annotated[int | None, Field(ge=1)] = None
    share: Annotated[float, Field(gt=0, le=100)] = 1.0


def key_file(data_dir: Path) -> KeyFile[Key]:
    """The named keys of a peer."""
    return KeyFile(data_dir / KEYS, Key)


class KeyRing:
    """The keys that are let in now. Without any, and no file of them, everybody is."""

    def __init__(self, given: Sequence[str], named: KeyFile[Key]) -> None:
        self._set = tuple(
            Key(name=f"set {number}", digest=digest_of(key))
            for number, key in enumerate(given, start=1)
        )
        self._named = named
        named.refresh()

    @property
    def open(self) -> bool:
        """Whether no key is asked for. Revoking the last one opens nothing."""
        return not self._set and not self._named.exists

    def find(self, given: str) -> Key | None:
        """The key whose text this is."""
        return find(self._all, given)

    def current(self, key: Key) -> Key | None:
        """A key as it is by now; None once it is revoked."""
        return next((each for each in self._all if each.digest == key.digest), None)

    def refresh(self) -> bool:
        """Follow the file; whether it has changed. Raises `ConfigurationError`."""
        return self._named.refresh()

    @property
    def _all(self) -> tuple[Key, ...]:
        return self._set + self._named.existing
