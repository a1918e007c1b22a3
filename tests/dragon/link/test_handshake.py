"""What a handshake (`dragon.link.control`) asks for, and what it says when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from dragon.errors import HandshakeError
from dragon.link.control import PROTOCOL_VERSION, Hello, check_hello
from dragon.sampling import noise

HELLO = Hello(tokenizer="t", relevance="r", model="m")


def test_equal_sides_shake_hands_whatever_their_models() -> None:
    check_hello(HELLO, HELLO.model_copy(update={"model": "another"}))


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"version": PROTOCOL_VERSION + 1}, "same release"),
        ({"tokenizer": "u"}, "DRAGON_MODEL"),
        ({"relevance": "s"}, "DRAGON_EMBEDDER"),
        ({"noise": "n"}, "NumPy"),
    ],
)
def test_a_refused_handshake_says_what_to_change(change: dict[str, Any], advice: str) -> None:
    with pytest.raises(HandshakeError, match=advice):
        check_hello(HELLO, HELLO.model_copy(update=change))


def test_another_version_is_named_first() -> None:
    other = Hello(version=99, tokenizer="u", noise="n", relevance="s", model="m")
    with pytest.raises(HandshakeError, match="version 99"):
        check_hello(HELLO, other)


def test_hello_carries_the_noise_of_this_machine() -> None:
    assert HELLO.noise == noise.fingerprint()
