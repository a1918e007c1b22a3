"""What a running peer looks after by the clock: keys that were changed, and use that is kept."""

from __future__ import annotations

import asyncio
import itertools
import logging

from dragon.errors import ConfigurationError
from peer.context import Shared
from peer.keys import KeyRing

log = logging.getLogger(__name__)

_LOOK_S = 0.5
_KEEP_EVERY = 10


async def watch(shared: Shared, keys: KeyRing) -> None:
    """Let go of devices whose key was revoked, until cancelled."""
    for look in itertools.count(1):
        await asyncio.sleep(_LOOK_S)
        try:
            if keys.refresh():
                log.info("the keys were changed")
                apply(shared, keys)
        except (ConfigurationError, OSError) as error:
            log.warning("the keys stay as they were: %s", error)
        if look % _KEEP_EVERY == 0:
            await shared.usage.keep()


def apply(shared: Shared, keys: KeyRing) -> None:
    """Have what the keys say now hold for the connections there are."""
    for connection in tuple(shared.connections):
        held = connection.holder.key
        current = None if held is None else keys.current(held)
        if current is not None:
            connection.holder.renew(current)
        elif held is not None or not keys.open:
            connection.expel()
