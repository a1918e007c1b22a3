"""When a service needs a key, how long it must be, and which characters it may have."""

from __future__ import annotations

import ipaddress

LEAST_KEY = 22
"""Characters of 6 bits each, enough for 128 bits."""


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_sendable(key: str) -> None:
    """Raises `ValueError` for a key that cannot be sent in a header."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("a key is printable ASCII without spaces")
