"""The link's streams: each message reaches its receiver, and each loss every one of them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from websockets.asyncio.client import ClientConnection

from app.peer_link.client import Link
from app.peer_link.fetch import Fetcher
from dragon.errors import LinkError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.estimates import LinkMeter
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control, registry
from dragon.protocol.messages import Resync

VOCABULARY = 100


class Observed:
    """What the ledger would see."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, object]] = []

    def opened(self, stream: int, answer: str) -> None:
        self.seen.append((stream, answer))

    def sent(self, stream: int, message: registry.Message, frame: registry.Frame) -> None:
        self.seen.append((stream, message))


class Received:
    """A receiver that keeps everything."""

    def __init__(self) -> None:
        self.got: list[object] = []

    def receive(self, message: registry.Message) -> None:
        self.got.append(message)

    def failed(self, message: str) -> None:
        self.got.append(message)

    def link_down(self) -> None:
        self.got.append("down")


def connected() -> tuple[Link, Observed]:
    observed = Observed()
    link = Link("ws://nowhere", None, control.Hello(), VOCABULARY, LinkMeter(), observed)
    link._connection = cast(ClientConnection, object())
    return link, observed


def test_messages_reach_the_receiver_of_their_stream() -> None:
    link, observed = connected()
    one, two = Received(), Received()
    first, second = link.open(one, "a"), link.open(two, "b")
    assert observed.seen == [(first, "a"), (second, "b")]
    link._route(registry.encode(Resync(3), second))
    link._route(registry.encode(control.Fault(code="overloaded", message="busy"), first))
    link._route(registry.encode(Resync(4), first))  # it has failed meanwhile
    assert (one.got, two.got) == (["busy"], [Resync(3)])
    link.close(second, "finished")
    link.close(second, "finished")
    link._route(registry.encode(Resync(5), second))
    assert two.got == [Resync(3)]
    assert observed.seen[2:] == [(second, control.Close(reason="finished"))]


def test_a_fault_of_no_stream_ends_the_link() -> None:
    link, _ = connected()
    with pytest.raises(LinkError, match="gone"):
        link._route(registry.encode(control.Fault(code="internal_error", message="gone")))


def test_a_loss_reaches_every_stream_once() -> None:
    link, _ = connected()
    receivers = [Received(), Received()]
    for receiver in receivers:
        link.open(receiver, "a")
    link._connection = None
    link._lost()
    link._lost()
    assert [receiver.got for receiver in receivers] == [["down"], ["down"]]
    assert link.status.state == "connecting"


async def test_a_fetch_whose_link_is_lost_returns_nothing(tokenizer: Tokenizer) -> None:
    link, observed = connected()
    fetcher = Fetcher(link, tokenizer, cast(LanguageModel, None))
    fetching = asyncio.ensure_future(fetcher.fetch("answer", "?", 2, raw=False, kv=False))
    await asyncio.sleep(0)
    link._connection = None
    link._lost()
    assert await fetching == []
    assert [name for _, name in observed.seen][:1] == ["answer"]
