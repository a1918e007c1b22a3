"""Where a service needs a key, how long that key has to be, and of what."""

from __future__ import annotations

import ipaddress

LEAST_KEY = 22
"""Characters of 6 bits that make 128."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_sendable(key: str) -> None:
    """Raises `ValueError` for a key that does not fit into a header."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("a key is printable ASCII without spaces")
