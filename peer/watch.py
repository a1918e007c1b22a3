"""What a running peer checks periodically: changed keys and corpus, usage to store."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from pathlib import Path

from dragon.errors import ConfigurationError
from dragon.retrieval.embedder import TextEmbedder
from peer.context import Shared
from peer.corpus.store import Corpus
from peer.corpus.versions import Versions
from peer.keys import KeyRing
from peer.retrieval import Retriever

log = logging.getLogger(__name__)

_LOOK_S = 0.5
_KEEP_EVERY = 10


async def watch(shared: Shared, keys: KeyRing) -> None:
    """Disconnect devices whose key was revoked, until cancelled."""
    for look in itertools.count(1):
        await asyncio.sleep(_LOOK_S)
        try:
            if keys.refresh():
                log.info("the keys were changed")
                apply(shared, keys)
        except (ConfigurationError, OSError) as error:
            log.warning("keeping the previous keys: %s", error)
        if look % _KEEP_EVERY == 0:
            await shared.usage.keep()


Opening = Callable[[TextEmbedder, str | None], Corpus]
"""Opens a version of the corpus, by default the one to serve."""


async def follow(retriever: Retriever, root: Path, opening: Opening) -> None:
    """Serve the version of the corpus chosen to be served, until cancelled.

    A damaged version is reported once, and the previous one stays in service.
    """
    versions, seen = Versions(root), None
    while True:
        await asyncio.sleep(_LOOK_S)
        if (mark := versions.mark) == seen:
            continue
        seen = mark
        try:
            if (named := versions.current) == retriever.corpus.version:
                continue
            corpus = await asyncio.to_thread(opening, retriever.embedder, named)
        except ConfigurationError as error:
            log.warning("the corpus stays %s: %s", retriever.corpus.version, error)
            continue
        await retriever.switch(corpus)
        log.info("now serving the corpus %s", named)


def apply(shared: Shared, keys: KeyRing) -> None:
    """Apply the current keys to all connections."""
    for connection in tuple(shared.connections):
        held = connection.holder.key
        current = None if held is None else keys.current(held)
        if current is not None:
            connection.holder.renew(current)
        elif held is not None or not keys.open:
            connection.expel()
