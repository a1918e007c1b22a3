"""What the peer's connections share, and what an answer needs of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Protocol

from dragon.errors import DragonError
from dragon.inference.engine import Engine
from dragon.inference.estimates import DecodeDelay, Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.registry import LINK, Message
from peer.metrics import PeerMetrics
from peer.retrieval import Retriever


@dataclass
class Shared:
    """What all connections share; `sessions` counts what is open on them."""

    engine: Engine
    tokenizer: Tokenizer
    retriever: Retriever
    hello: control.Hello
    max_sessions: int
    metrics: PeerMetrics
    decode: DecodeDelay
    sessions: int = 0


class Channel(Protocol):
    """One device's connection, as an answer sees it."""

    @property
    def pace(self) -> Pace:
        """What is known of the link and of both sides' steps."""

    def send(self, message: Message, stream: int = LINK) -> int:
        """Queue a message; the bytes of its frame. A device that does not read is hung up on."""

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine for as long as the connection lasts."""

    def forget(self, generation: int) -> None:
        """An answer is over: free what it holds."""

    def fail(self, generation: int, error: DragonError) -> None:
        """An answer cannot go on here; the device goes on without."""
