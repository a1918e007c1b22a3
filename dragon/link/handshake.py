"""What both sides of a link must have in common, as their first frames state it."""

from __future__ import annotations

from dragon.errors import HandshakeError
from dragon.link.control import Hello
from dragon.localizable import Localizable


def check_hello(own: Hello, other: Hello) -> None:
    """Raises `HandshakeError`, saying what to change, if the two sides are incompatible."""
    if own.version != other.version:
        raise HandshakeError(
            Localizable(
                f"the other side speaks protocol version {other.version}, this one {own.version}: "
                "run the same release on both",
                "handshake.version",
            )
        )
    if own.tokenizer != other.tokenizer:
        raise HandshakeError(
            Localizable(
                f"the models have different tokenizers or chat templates ({own.model} here, "
                f"{other.model} there): set DRAGON_MODEL to models of one family on both sides",
                "handshake.tokenizer",
            )
        )
    if own.relevance != other.relevance:
        raise HandshakeError(
            Localizable(
                "the sides measure relevance differently: set DRAGON_EMBEDDER and DRAGON_RERANKER "
                "alike on both, and run the same release",
                "handshake.relevance",
            )
        )
    if own.noise != other.noise:
        raise HandshakeError(
            Localizable(
                "the sides do not compute the same noise: run the same release of DRAGON and NumPy",
                "handshake.noise",
            )
        )
