"""Where a service needs a key, and how long that key has to be."""

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
