"""The link and its peers: which one is taken, and what becomes of answers when another one is.

Covers `app.peer_link.connection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from app.peer_link.client import LOOK_S, Link
from app.peer_link.connection import Introduction
from app.peer_link.fetch import fetch
from app.peer_link.status import Refusal
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control, registry
from dragon.link.address import PeerAddress
from dragon.protocol.messages import Resync
from tests.app.peer_link.toy_peer import VOCABULARY, ToyPeer, toy_peer, until

FULL = control.Fault(code="peer.full", message="full", retry_s=30)
QUERY = control.Fetch(query="?", top_k=1, raw=False)


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

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        self.got.append(message)

    def link_down(self) -> None:
        self.got.append("down")

    def link_up(self) -> None:
        self.got.append("up")


def link_to(peers: Sequence[PeerAddress], observed: Observed, look_s: float = LOOK_S) -> Link:
    pace = Pace(LinkMeter(), DecodeDelay())
    introduction = Introduction(None, control.Hello(), VOCABULARY)
    return Link(peers, introduction, pace, observed, look_s)


@asynccontextmanager
async def linked(*peers: ToyPeer, look_s: float = LOOK_S) -> AsyncIterator[tuple[Link, Observed]]:
    """A link that is connected to one of these."""
    observed = Observed()
    link = link_to([peer.address for peer in peers], observed, look_s)
    async with link.running():
        await until(lambda: link.connected)
        yield link, observed


async def test_messages_reach_the_receiver_of_their_stream() -> None:
    async with toy_peer() as peer, linked(peer) as (link, observed):
        one, two = Received(), Received()
        first, second = link.open(one, "a"), link.open(two, "b")
        await peer.send(Resync(3), second)
        await peer.send(control.Fault(code="overloaded", message="busy"), first)
        await peer.send(Resync(4), first)  # it has failed meanwhile
        await peer.send(Resync(4), second)
        await until(lambda: len(two.got) == 2)
        assert (one.got, two.got) == (["busy"], [Resync(3), Resync(4)])
        link.close(second, "finished")
        link.close(second, "finished")
        await until(lambda: peer.got == [(second, control.Close(reason="finished"))])
        seen = [each for each in observed.seen if each[0] != registry.LINK]
        assert seen == [(first, "a"), (second, "b"), (second, control.Close(reason="finished"))]


async def test_a_fault_of_no_stream_ends_the_connection() -> None:
    async with toy_peer() as peer, linked(peer) as (link, _):
        receiver = Received()
        link.open(receiver, "a")
        await peer.send(control.Fault(code="internal_error", message="gone"))
        await until(lambda: receiver.got == ["down"])
        assert link.status.state == "connecting"
        await until(lambda: link.connected)


async def test_a_peer_that_fails_while_it_is_measured_has_not_refused() -> None:
    async with toy_peer() as one, toy_peer() as other:
        one.fault = other.fault = control.Fault(code="internal_error", message="gone")
        link = link_to([one.address, other.address], Observed())
        async with link.running():
            await until(lambda: "gone" in link.status.detail)
            assert link.status.state == "connecting"
            one.fault = None
            await until(lambda: link.connected)


async def test_a_loss_reaches_every_stream_once() -> None:
    async with toy_peer() as peer, linked(peer) as (link, _):
        receivers = [Received(), Received()]
        streams = [link.open(receiver, "a") for receiver in receivers]
        link.drop(streams[0], "the peer does not answer")
        assert [receiver.got for receiver in receivers] == [["down"], ["down"]]
        assert link.status.detail == "the connection was lost"
        link.drop(streams[1], "the peer does not answer")
        await until(lambda: link.connected)
        assert [receiver.got for receiver in receivers] == [["down"], ["down"]]


async def test_a_fetch_whose_link_is_lost_returns_nothing(tokenizer: Tokenizer) -> None:
    async with toy_peer() as peer, linked(peer) as (link, _):
        found = fetch(link, "answer", QUERY, tokenizer, cast(LanguageModel, None))
        fetching = asyncio.ensure_future(found)
        await until(peer.opened)
        await peer.kill()
        assert await fetching == []


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"delay_s": 0.0}, {"delay_s": 0.05}),
        ({"load": 0.1}, {"load": 0.9}),
        ({"delay_s": 0.05}, {"load": 1.0}),
        ({}, {"refusal": "this peer is about to end"}),
    ],
)
async def test_the_best_peer_is_taken(better: dict[str, float], worse: dict[str, float]) -> None:
    async with (
        toy_peer(**worse) as other,  # type: ignore[arg-type]
        toy_peer(**better) as best,  # type: ignore[arg-type]
        linked(other, best) as (link, _),
    ):
        link.send(QUERY, link.open(Received(), "a"))
        await until(best.opened)
        await until(lambda: not other.connections)  # idle ones are not kept
        assert not other.opened()


async def test_answers_end_where_they_began_when_a_peer_drains() -> None:
    async with toy_peer() as old, toy_peer(delay_s=0.05) as new, linked(old, new) as (link, _):
        begun = Received()
        stream = link.open(begun, "a")
        link.send(QUERY, stream)
        link.attached.add(begun)
        old.load = 1.0
        await old.send(control.Draining())
        await until(lambda: (registry.LINK, control.Draining()) in old.got)
        assert begun.got == ["up"]  # it may be joined elsewhere, and needs it not
        link.send(QUERY, link.open(Received(), "b"))
        await until(new.opened)
        await old.send(Resync(3), stream)
        await until(lambda: begun.got == ["up", Resync(3)])
        link.close(stream, "finished")
        await until(lambda: not old.connections)
        assert (stream, control.Close(reason="finished")) in old.got
        assert old.opened() == [stream]
        assert link.connected


async def test_a_draining_peer_is_used_until_there_is_another() -> None:
    async with toy_peer() as peer, linked(peer) as (link, _):
        peer.refusal = "this peer is about to end"
        await peer.send(control.Draining())
        receiver = Received()
        stream = link.open(receiver, "a")
        link.send(QUERY, stream)
        await until(lambda: peer.opened() == [stream])
        assert link.status.state == "connected"
        await peer.kill()
        await until(lambda: receiver.got == ["down"])


async def test_a_killed_peer_is_replaced_by_another() -> None:
    async with (
        toy_peer() as first,
        toy_peer(delay_s=0.05) as second,
        linked(first, second) as (link, _),
    ):
        receiver = Received()
        link.open(receiver, "a")
        link.attached.add(receiver)
        await first.kill()
        await until(lambda: receiver.got == ["down", "up"])
        link.send(QUERY, link.open(Received(), "b"))
        await until(second.opened)


async def test_a_peer_that_has_become_better_takes_over() -> None:
    async with (
        toy_peer() as first,
        toy_peer(load=0.5) as second,
        linked(first, second, look_s=0.05) as (link, _),
    ):
        link.send(QUERY, link.open(Received(), "a"))
        await until(first.opened)
        first.load, second.load = 0.9, 0.0
        await until(lambda: (registry.LINK, control.Draining()) in first.got)
        link.send(QUERY, link.open(Received(), "b"))
        await until(second.opened)
        assert link.connected


async def test_a_peer_without_room_is_left_alone_until_it_is_done_with_an_answer() -> None:
    async with toy_peer() as peer, linked(peer) as (link, _):
        begun, refused = link.open(Received(), "a"), Received()
        await peer.send(FULL, link.open(refused, "b"))
        await until(lambda: refused.got == ["full"])
        assert link.connected
        assert link.refusal is not None
        assert link.refusal.message == "full: try again in 30 s"
        link.close(begun, "finished")
        assert link.refusal is None


async def test_another_peer_takes_the_answers_that_one_has_no_room_for() -> None:
    async with (
        toy_peer() as first,
        toy_peer(delay_s=0.02) as second,
        linked(first, second) as (link, _),
    ):
        receiver = Received()
        link.attached.add(receiver)
        await first.send(FULL, link.open(receiver, "a"))
        await until(lambda: receiver.got == ["full", "up"])
        assert link.refusal is None
        link.send(QUERY, link.open(Received(), "b"))
        await until(second.opened)
        # Where none has room, it stays.
        await second.send(FULL, link.open(receiver, "c"))
        await until(lambda: receiver.got == ["full", "up", "full"])
        link.send(QUERY, link.open(Received(), "d"))
        await until(lambda: len(second.opened()) == 2)
        assert not first.opened()


async def test_it_says_of_each_peer_why_there_is_no_link() -> None:
    async with toy_peer(refusal="no room") as one, toy_peer(refusal="asleep") as other:
        addresses = [one.address, other.address]
        link = link_to(addresses, Observed())
        async with link.running():
            await until(lambda: link.status.detail)
            assert link.status.state == "connecting"
            for address, reason in zip(addresses, ("no room", "asleep"), strict=True):
                assert f"{address.url}: the peer refuses the link: {reason}" in link.status.detail
            first = link.status.detail.as_json()["values"]["first"]
            assert first["values"]["why"]["code"] == "link.ending"
