"""Authentication: the API key, one-time sign-in links, and the cookie of a signed-in browser."""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import tempfile
import time
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.api_keys import ApiKey, Credential
from app.owners import DEVICE
from app.settings import Settings
from dragon.errors import AuthenticationError, ConfigurationError
from dragon.keys import KeyFile, NamedKey, digest_of, find
from dragon.whole_file import write_whole

if TYPE_CHECKING:
    from starlette.datastructures import Headers

log = logging.getLogger(__name__)

COOKIE = "dragon_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""The cookie's name over TLS: no other host under the same domain can set one with this prefix."""
SESSION_S = 30 * 24 * 3600.0
LINK_S = 24 * 3600.0
MAX_ATTEMPTS = 10
_MAX_SESSIONS = 100
_MAX_SPENT = 1000
_CLOSED = frozenset({"/mcp", "/tokenize", "/detokenize"})
_HELP = "`dragon key` prints it"


def api_key(settings: Settings) -> str:
    """The configured key, or the one kept in the data directory, created on first start."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return kept_key(settings.data_dir / "api_key")


def kept_key(path: Path) -> str:
    """The key in a file, created on first use. Raises `ConfigurationError`."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file that nobody else can read, and that is never seen half-written.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.") as draft:
            draft.write(f"dragon-{secrets.token_urlsafe(32)}\n")
            draft.flush()
            with suppress(FileExistsError):  # another process was faster; its key counts
                os.link(draft.name, path)
    key = path.read_text("ascii", "replace").strip()
    if not key:
        raise ConfigurationError(f"{path} is empty: delete it, and the next start makes a new key")
    return key


def one_time_code(key: str, now: float) -> str:
    """A code that signs one browser in, once, within `LINK_S`; whoever has the key can make one."""
    stated = f"{secrets.token_urlsafe(12)}.{int(now + LINK_S)}"
    return f"{stated}.{_seal(key, stated)}"


def _seal(key: str, stated: str) -> str:
    return hmac.digest(key.encode(), f"sign-in {stated}".encode(), "sha256").hex()


def needs_key(path: str) -> bool:
    return path.startswith(("/v1/", "/api/", "/ws/")) or path in _CLOSED


class BrowserSessions:
    """Signed-in browsers, by the SHA-256 of their cookies' values, until they expire or sign out.

    Kept in a file, if given, so that a restart signs nobody out. A new key ends all sessions;
    revoking a named key ends those that it began. Sessions made while the clock was far ahead are
    invalid once it is right again.
    """

    def __init__(self, key: str, path: Path | None = None) -> None:
        self._path = path
        self._key = digest_of(key)
        # When each expires, and the digest of the named key that began it, "" for the device's own.
        self._known: dict[str, tuple[float, str]] = {}
        self._spent: dict[str, float] = {}  # when used codes expire, by their payload
        if path is not None and path.exists():
            with suppress(ValueError, KeyError):  # with a damaged file nobody is signed in
                kept = json.loads(path.read_text())
                if kept["key"] == self._key:
                    self._known = _browsers(kept)
                    self._spent = kept["spent"]

    def begin(self, key: NamedKey | None = None) -> str:
        """Sign a browser in, by a named key or the device's own; returns its cookie's value."""
        token, now = secrets.token_urlsafe(32), time.time()
        newest = sorted(self._known.items(), key=lambda each: each[1])[-_MAX_SESSIONS + 1 :]
        self._known = {digest: each for digest, each in newest if each[0] > now}
        self._known[digest_of(token)] = now + SESSION_S, "" if key is None else key.digest
        self._keep()
        return token

    def spend(self, stated: str, until: float) -> bool:
        """Use a one-time code up; False if it was used before or has expired."""
        if stated in self._spent or not _lasts(until, LINK_S):
            return False
        # By number, not by age: the clock may have been ahead, with codes still valid.
        self._spent = dict([*self._spent.items(), (stated, until)][-_MAX_SPENT:])
        self._keep()
        return True

    def end(self, token: str) -> None:
        """Sign a browser out; its cookie becomes invalid."""
        if self._known.pop(digest_of(token), None) is not None:
            self._keep()

    def key_of(self, token: str) -> str | None:
        """The digest of the named key that signed a browser in, "" for the device's own key.

        None if the browser is not signed in.
        """
        until, by = self._known.get(digest_of(token), (0.0, ""))
        return by if _lasts(until, SESSION_S) else None

    def _keep(self) -> None:
        if self._path is not None:
            kept = {"key": self._key, "browsers": self._known, "spent": self._spent}
            write_whole(self._path, json.dumps(kept))


def _browsers(kept: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """The browsers in a file, also as it was when those without a named key stood apart."""
    if "browsers" not in kept:
        own = {digest: (until, "") for digest, until in kept["sessions"].items()}
        return own | {digest: (until, by) for digest, (until, by) in kept.get("named", {}).items()}
    return {digest: (until, by) for digest, (until, by) in kept["browsers"].items()}


def _lasts(until: float, lifetime: float) -> bool:
    """Whether `until` is ahead, but not so far that the clock was wrong when it was set."""
    return 0.0 < until - time.time() < 2 * lifetime


class Attempts:
    """Failed sign-ins by method and address: after several in a minute the client must wait."""

    def __init__(self) -> None:
        self._failed: dict[str, list[float]] = {}

    def exceeded(self, by: str) -> bool:
        """Whether further attempts are refused for now."""
        recent = [at for at in self._failed.get(by, []) if at > time.monotonic() - 60.0]
        if recent:
            self._failed[by] = recent
        else:
            self._failed.pop(by, None)
        return len(recent) >= MAX_ATTEMPTS

    def failed(self, by: str) -> None:
        log.warning("a sign-in failed: %s", by)
        self._failed.setdefault(by, []).append(time.monotonic())


class Authenticator:
    """Checks requests against the key, named keys, and the cookies of signed-in browsers."""

    def __init__(
        self, key: str, sessions: Path | None = None, named: KeyFile[ApiKey] | None = None
    ) -> None:
        self._key = key.encode()
        self._named = named
        self.sessions = BrowserSessions(key, sessions)
        self.attempts = Attempts()

    def accepts_key(self, candidate: str) -> bool:
        return hmac.compare_digest(candidate.encode("utf-8", "replace"), self._key)

    def accepts_code(self, code: str) -> bool:
        """Whether `code` is from a one-time link of this key, neither used nor expired."""
        stated, _, seal = code.rpartition(".")
        expected = _seal(self._key.decode(), stated)
        if not hmac.compare_digest(seal.encode("utf-8", "replace"), expected.encode()):
            return False
        return self.sessions.spend(stated, float(stated.rpartition(".")[2]))

    def cookie(self, headers: Headers) -> str:
        """The value of the request's session cookie; empty without one."""
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return ""
        found = cookies.get(SECURE_COOKIE) or cookies.get(COOKIE)
        return "" if found is None else found.value

    def session(self, headers: Headers) -> Credential | None:
        """The key that signed the request's browser in, if it is signed in."""
        if (digest := self.sessions.key_of(self.cookie(headers))) is None:
            return None
        if digest == "":
            return Credential()
        key = next((each for each in self._existing() if each.digest == digest), None)
        return None if key is None else Credential(key)

    def check(self, headers: Headers) -> Credential:
        """The credential of a request.

        Raises `AuthenticationError`, which says what to send, if there is no valid one.
        """
        if (given := given_key(headers)) is not None:
            if self.accepts_key(given):
                return Credential()
            if (key := self.named(given)) is None:
                raise AuthenticationError(f"Incorrect API key; {_HELP}.")
            return Credential(key)
        if (credential := self.session(headers)) is None:
            raise AuthenticationError(
                f"No API key: send it as `Authorization: Bearer KEY` ({_HELP}); "
                "a browser signs in with the link printed at start."
            )
        return credential

    def named(self, given: str) -> ApiKey | None:
        return find(self._existing(), given)

    def exists(self, key: ApiKey) -> bool:
        """Whether a named key is unchanged and not revoked."""
        return key in self._existing()

    def owners(self) -> set[str]:
        return {each.name for each in self._existing() if each.owner != DEVICE}

    def _existing(self) -> tuple[ApiKey, ...]:
        if self._named is None:
            return ()
        try:
            self._named.refresh()
        except (ConfigurationError, OSError) as error:
            log.warning("keeping the previous named keys: %s", error)
        return self._named.existing


def given_key(headers: Headers) -> str | None:
    """The key in a request's headers, which takes precedence over its cookie.

    OpenAI's clients send it as a bearer token, Anthropic's as `x-api-key`.
    """
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")
