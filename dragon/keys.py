"""Named keys, in a file that a running service reloads; and which hosts are on loopback."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
)

from dragon.errors import ConfigurationError, InvalidRequestError, NotFoundError
from dragon.whole_file import write_whole

LEAST_KEY = 22  # characters of 6 bits each, enough for 128 bits
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sendable(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("a key is printable ASCII without spaces")
    return key


SendableKey = Annotated[SecretStr, AfterValidator(_sendable)]
"""A key that can be sent in a header."""


class NamedKey(BaseModel):
    """A key of 256 random bits, stored as its SHA-256 in hex."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


K = TypeVar("K", bound=NamedKey)


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


class KeyFile(Generic[K]):
    """A file of keys of one type. `existing` holds the keys as last read."""

    def __init__(self, path: Path, kind: type[K]) -> None:
        self._path = path
        self._kind = kind
        self._keys = TypeAdapter(tuple[kind, ...])  # type: ignore[valid-type]
        self._seen: tuple[int, int] | None = None
        self.existing: tuple[K, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether the file was ever seen, even if revoking has emptied it since."""
        return self._seen is not None

    def refresh(self) -> bool:
        """Read the file if it has changed, and say whether it has.

        Raises `ConfigurationError`, once for each change, and leaves the keys as they were.
        """
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False  # deleting the file revokes nothing
        seen = status.st_ino, status.st_mtime_ns
        if seen == self._seen:
            return False
        self._seen = seen
        self.existing = self.read()
        return True

    def read(self) -> tuple[K, ...]:
        """The keys in the file, none if there is no file. Raises `ConfigurationError`."""
        try:
            return tuple(self._keys.validate_json(self._path.read_bytes()))
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError) as error:
            raise ConfigurationError(f"{self._path} cannot be read: {error}") from error

    def add(self, name: str, **allowed: Any) -> str:
        """Create a key with the `allowed` fields; only its digest is stored.

        Raises `InvalidRequestError` for a name that is taken or invalid.
        """
        require_name(name)
        key = secrets.token_urlsafe(32)
        with self._changed() as keys:
            if any(each.name == name for each in keys):
                raise InvalidRequestError(f"the key {name} already exists: revoke it first")
            keys.append(self._kind(name=name, digest=digest_of(key), **allowed))
        return key

    def revoke(self, name: str) -> None:
        """Remove a key. Raises `NotFoundError`."""
        with self._changed() as keys:
            kept = [key for key in keys if key.name != name]
            if len(kept) == len(keys):
                raise NotFoundError(f"there is no key {name}; `list` lists them")
            keys[:] = kept

    @contextmanager
    def _changed(self) -> Iterator[list[K]]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            keys = list(self.read())
            yield keys
            write_whole(self._path, self._keys.dump_json(tuple(keys), indent=2))
        finally:
            os.close(folder)


def require_name(name: str) -> None:
    """Raises `InvalidRequestError` for an invalid key name."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{name!r} is no name for a key: use up to 40 small letters, digits, '.', '_' and "
            "'-', and begin with a letter or digit"
        )


def find(keys: tuple[K, ...], given: str) -> K | None:
    """The key with this text. Every key is compared, so that timing reveals nothing."""
    digest = digest_of(given)
    matches = [key for key in keys if hmac.compare_digest(key.digest, digest)]
    return matches[0] if matches else None
