"""A peer that lies while it is greeted: the device says what is wrong, and tries again."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from app.peer_link import client
from dragon.link import control, registry
from tests.app.peer_link.test_client import Observed, Received, link_to
from tests.app.peer_link.toy_peer import toy_peer, until

LONGEST = 1000  # characters of a sentence

HELLO = json.loads(str(registry.encode(control.Hello())))
FAKED = "x\n12:00:00 ERROR dragon: your documents are gone\r\n" + "x" * 60_000


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BACKOFF_S", (0.01, 0.01))


def says(**changes: object) -> str:
    """A greeting with these changes."""
    return json.dumps(HELLO | changes)


@pytest.mark.parametrize(
    ("greeting", "state", "why"),
    [
        (says(tokenizer="another"), "refused", "different tokenizers"),
        (says(tokenizer="another", model=FAKED), "refused", "different tokenizers"),
        (says(noise="another"), "refused", "do not compute the same noise"),
        (says(relevance="another"), "refused", "measure relevance differently"),
        (says(version=10**18), "refused", "speaks protocol version 1000000000000000000"),
        (says(version=-1), "refused", "speaks protocol version -1"),
        (says(version=10**30), "connecting", "hello.version"),
        (says(version=float("nan")), "connecting", "not a control message"),
        (says(version="12"), "connecting", "hello.version"),
        (says(model=["dragon-7m"]), "connecting", "hello.model"),
        (says(tokenizer="x" * (64 * 1024 + 1)), "connecting", "hello.tokenizer"),
        (says(kind="ready"), "connecting", "not a control message"),
        (says(kind=FAKED), "connecting", "there is no kind"),
        (json.dumps({"kind": "pong", "number": 1, FAKED: 1}), "connecting", "not a control"),
        (json.dumps({"kind": "pong", "number": 1}), "connecting", "is not a hello"),
        ("[" * 100_000, "connecting", "not a control message"),
        (b"\xff\xfe", "connecting", ""),
        ("x" * (2 * control.MAX_CONTROL_BYTES), "connecting", ""),
        (json.dumps({"kind": "error", "code": "x", "message": FAKED}), "refused", "x 12:00:00"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
async def test_a_greeting_that_lies_is_named_in_a_sentence_until_there_is_a_true_one(
    greeting: str | bytes, state: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with toy_peer() as peer:
        peer.greeting = greeting
        link = link_to([peer.address], Observed())
        async with link.running():
            await until(lambda: link.status.detail)
            said = link.status.detail
            assert link.status.state == state
            assert why in said
            assert said.isprintable()
            assert len(said) <= LONGEST
            assert all(len(line) <= 2 * LONGEST for line in caplog.text.splitlines())
            assert "\n12:00:00" not in caplog.text
            assert not link.connected
            peer.greeting = None
            await until(lambda: link.connected)


async def test_an_error_that_nobody_thought_of_does_not_end_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise ValueError("something odd")

    async with toy_peer() as peer:
        link = link_to([peer.address], Observed())
        with monkeypatch.context() as patched:
            patched.setattr(client.Connection, "open", fails)
            running = asyncio.create_task(link.run())
            await until(lambda: link.status.detail == "something odd")
        await until(lambda: link.connected)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_peer_that_becomes_another_one_is_left() -> None:
    async with toy_peer() as peer:
        link, receiver = link_to([peer.address], Observed()), Received()
        async with link.running():
            await until(lambda: link.connected)
            link.open(receiver, "a")
            link.attached.add(receiver)
            peer.greeting = says(tokenizer="another", model="of another family")
            await peer.hang_up()
            await until(lambda: link.status.state == "refused")
            assert "of another family there" in link.status.away
            assert receiver.got == ["down"]
            peer.greeting = None
            await until(lambda: receiver.got == ["down", "up"])


@pytest.mark.parametrize(
    "where", ["ws://[", "ws://127.0.0.1:99999/", "ws://127.0.0.1:9/", "https://example.org/", ""]
)
async def test_a_peer_that_sends_the_device_elsewhere_is_not_followed(where: str) -> None:
    """Elsewhere the link might be one that anybody reads."""
    async with toy_peer() as peer:
        peer.elsewhere = where
        link = link_to([peer.address], Observed())
        async with link.running():
            await until(lambda: link.status.detail)
            assert link.status.detail == "the peer refuses the link: over there"
            peer.elsewhere = None
            await until(lambda: link.connected)
