"""The keys of a peer's devices: some set, others named, in a file that changes while it runs."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragon.errors import ConfigurationError, InvalidRequestError, NotFoundError
from peer.files import write_whole

KEYS = "peer_keys.json"
"""In the data directory."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_SET = "set-"


class Key(BaseModel):
    """A key by its SHA-256, hex, and what its devices may have; None leaves it to the peer.

    A key is 256 random bits, so that nothing slower than SHA-256 is needed to keep it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    tokens_a_day: Annotated[int | None, Field(ge=1)] = None
    answers: Annotated[int | None, Field(ge=1)] = None
    share: Annotated[float, Field(gt=0, le=100)] = 1.0


class _File(BaseModel):
    keys: tuple[Key, ...] = ()


class KeyRing:
    """The keys that are let in now. Without any, and no file of them, everybody is."""

    def __init__(self, given: Sequence[str], path: Path) -> None:
        self._set = tuple(
            Key(name=f"{_SET}{number}", digest=_digest(key))
            for number, key in enumerate(given, start=1)
        )
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._named: tuple[Key, ...] = ()
        self.refresh()

    @property
    def open(self) -> bool:
        """Whether no key is asked for. Revoking the last one opens nothing."""
        return not self._set and self._seen is None

    def find(self, given: str) -> Key | None:
        """The key whose text this is; every one is compared, so that the time tells nothing."""
        digest = _digest(given)
        matches = [key for key in self._all if hmac.compare_digest(key.digest, digest)]
        return matches[0] if matches else None

    def current(self, key: Key) -> Key | None:
        """A key as it is by now; None once it is revoked."""
        return next((each for each in self._all if each.digest == key.digest), None)

    def refresh(self) -> bool:
        """Read the file if it has changed; whether it has. Raises `ConfigurationError`."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False  # one that was there and is gone revokes nothing
        seen = status.st_ino, status.st_mtime_ns
        if seen == self._seen:
            return False
        self._seen = seen  # even where it is damaged, so that this is said once
        self._named = read(self._path)
        return True

    @property
    def _all(self) -> tuple[Key, ...]:
        return self._set + self._named


def read(path: Path) -> tuple[Key, ...]:
    """The keys in a file, none where there is no file. Raises `ConfigurationError`."""
    try:
        return _File.model_validate_json(path.read_bytes()).keys
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def add(
    path: Path,
    name: str,
    *,
    tokens_a_day: int | None = None,
    answers: int | None = None,
    share: float = 1.0,
) -> str:
    """Make a key, of which only the digest is kept. Raises `InvalidRequestError`."""
    if not _NAME.fullmatch(name) or name.startswith(_SET):
        raise InvalidRequestError(
            f"{name!r} is no name for a key: use up to 40 small letters, digits, '.', '_' and '-', "
            f"and begin with a letter or digit, not with '{_SET}'"
        )
    key = secrets.token_urlsafe(32)
    with _changed(path) as keys:
        if any(each.name == name for each in keys):
            raise InvalidRequestError(f"there is a key {name} already: revoke it first")
        keys.append(
            Key(
                name=name,
                digest=_digest(key),
                tokens_a_day=tokens_a_day,
                answers=answers,
                share=share,
            )
        )
    return key


def revoke(path: Path, name: str) -> None:
    """Let a key's devices in no longer. Raises `NotFoundError`."""
    with _changed(path) as keys:
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            raise NotFoundError(f"there is no key {name}; `dragon peer keys list` lists them")
        keys[:] = kept


@contextmanager
def _changed(path: Path) -> Iterator[list[Key]]:
    """The keys of a file, written back whole; one program at a time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        keys = list(read(path))
        yield keys
        write_whole(path, _File(keys=tuple(keys)).model_dump_json(indent=2))
    finally:
        os.close(folder)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
