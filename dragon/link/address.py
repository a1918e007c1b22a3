"""The addresses of peers, and the certificates that identify them."""

from __future__ import annotations

import hashlib
import re
import ssl
from dataclasses import dataclass
from urllib.parse import urldefrag, urlsplit

from dragon.keys import is_loopback

LINK_PATH = "/v1/link"
"""Where a peer accepts devices; the default path of a URL without one."""

_PIN = "sha256="
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PeerAddress:
    """A URL to connect to. `pin` is the SHA-256 of the only certificate accepted there, in hex.

    Without a pin, certificates are checked as browsers do.
    """

    url: str
    pin: str = ""

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of the connection; None if it is not encrypted."""
        if not self.url.startswith("wss:"):
            return None
        return _Pinned.to(self.pin) if self.pin else ssl.create_default_context()


def addresses(setting: str) -> tuple[PeerAddress, ...]:
    """The peers of a comma-separated list; raises `ValueError` if one is malformed or not safe."""
    found = tuple(_address(each.strip()) for each in setting.split(",") if each.strip())
    if not found:
        raise ValueError("must look like wss://peer.example/v1/link")
    return found


def fingerprint(certificate: bytes) -> str:
    """The fingerprint of a DER certificate, by which it is pinned: its SHA-256 in hex."""
    return hashlib.sha256(certificate).hexdigest()


def _address(text: str) -> PeerAddress:
    url, fragment = urldefrag(text)
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise ValueError("must look like wss://peer.example/v1/link")
    if parts.scheme == "ws" and not is_loopback(parts.hostname):
        raise ValueError("off this machine the link must be encrypted: use wss://")
    if parts.path in ("", "/"):
        url = parts._replace(path=LINK_PATH).geturl()
    if not fragment:
        return PeerAddress(url)
    pin = fragment.removeprefix(_PIN).replace(":", "").lower()
    if parts.scheme == "ws" or not fragment.startswith(_PIN) or not _DIGEST.fullmatch(pin):
        raise ValueError(
            "a certificate is pinned as wss://peer.example/v1/link#sha256= and the 64 digits of "
            "its fingerprint, which `dragon peer` prints"
        )
    return PeerAddress(url, pin)


def _require_pinned(connection: ssl.SSLObject | ssl.SSLSocket) -> None:
    """Raises `SSLCertVerificationError` for another certificate, before anything is sent."""
    found = fingerprint(connection.getpeercert(binary_form=True) or b"")
    context = connection.context
    assert isinstance(context, _Pinned)
    if found != context.pin:
        raise ssl.SSLCertVerificationError(
            1, f"its certificate has the fingerprint {found}, and another is pinned"
        )


class _PinnedObject(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        _require_pinned(self)


class _PinnedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _require_pinned(self)


class _Pinned(ssl.SSLContext):
    """Accepts one certificate, whoever signed it and whatever it says."""

    sslobject_class = _PinnedObject
    sslsocket_class = _PinnedSocket
    pin: str

    @classmethod
    def to(cls, pin: str) -> _Pinned:
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.pin = pin
        return context
