"""What the peer's connections share, and what serves a stream on one of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from dragon.inference.engine import Engine
from dragon.inference.estimates import DecodeDelay
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.registry import Message
from peer.metrics import PeerMetrics
from peer.retrieval import Retriever


@dataclass
class Holder:
    """Whoever has a key, over all its connections: its open streams, and the bytes it has to read.

    Without keys every connection is a holder of its own.
    """

    sessions: int = 0
    queued_bytes: int = 0


@dataclass
class Shared:
    """What all connections share; `sessions` counts the streams that are open on them."""

    engine: Engine
    tokenizer: Tokenizer
    retriever: Retriever
    hello: control.Hello
    max_sessions: int
    metrics: PeerMetrics
    decode: DecodeDelay
    sessions: int = 0
    holders: WeakValueDictionary[str, Holder] = field(default_factory=WeakValueDictionary)

    def holder(self, key: str) -> Holder:
        """The holder of a key; one of its own without."""
        return self.holders.setdefault(key, Holder()) if key else Holder()


class Serving(Protocol):
    """What the peer does for one stream: a run, a fetch, a scoring."""

    def messages(self) -> AsyncGenerator[Message, None]:
        """The messages to send, in order; closing the generator frees what it holds.

        Raises `DragonError` where the device is to go on without them.
        """
