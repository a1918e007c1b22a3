"""Authentication: the API key, and the cookie a browser gets in exchange for it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING

from app.settings import Settings
from dragon.errors import AuthenticationError, ConfigurationError

if TYPE_CHECKING:
    from starlette.datastructures import Headers

COOKIE = "dragon_session"
_HELP = "`dragon key` prints it"


def api_key(settings: Settings) -> str:
    """The key that is set, or the one kept in the data directory, made on the first start."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return kept_key(settings.data_dir / "api_key")


def kept_key(path: Path) -> str:
    """The key in a file, created on first use. Raises `ConfigurationError`."""
    if not path.exists():
        _create(path, f"dragon-{secrets.token_urlsafe(32)}")
    key = path.read_text("ascii", "replace").strip()
    if not key:
        raise ConfigurationError(f"{path} is empty: delete it, and the next start makes a new key")
    return key


def _create(path: Path, key: str) -> None:
    """Write a file that nobody else can read and nobody ever sees half-written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.") as draft:
        draft.write(f"{key}\n")
        draft.flush()
        with suppress(FileExistsError):  # somebody was faster; their key is the key
            os.link(draft.name, path)


def needs_key(path: str) -> bool:
    """Whether a path is closed to those without the key."""
    return path.startswith(("/v1/", "/api/", "/ws/")) or path in ("/tokenize", "/detokenize")


class Authenticator:
    """Checks requests against one key.

    The cookie holds a value derived from the key: whoever reads a cookie has the session but not
    the key, and a new key ends every session.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self.session = hmac.new(self._key, b"dragon browser session", hashlib.sha256).hexdigest()

    def accepts_key(self, candidate: str) -> bool:
        """Whether `candidate` is the key."""
        return hmac.compare_digest(candidate.encode("utf-8", "replace"), self._key)

    def has_session(self, headers: Headers) -> bool:
        """Whether the request carries the cookie of a signed-in browser."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(
            morsel.value.encode("utf-8", "replace"), self.session.encode()
        )

    def check(self, headers: Headers) -> None:
        """Raises `AuthenticationError`, saying what to send, without a valid credential."""
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            if not self.accepts_key(credential.strip()):
                raise AuthenticationError(f"Incorrect API key; {_HELP}.")
        elif not self.has_session(headers):
            raise AuthenticationError(
                f"No API key: send it as `Authorization: Bearer KEY` ({_HELP}); "
                "a browser signs in with the link printed at start."
            )
