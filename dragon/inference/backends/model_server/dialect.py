"""How to ask a model server to go on with a text, and what it says of each position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dragon.errors import ModelServerError
from dragon.localizable import localizable


@dataclass(frozen=True)
class Position:
    """The likeliest tokens of a position with their log-probabilities, and the one drawn there.

    The one drawn is None where the server does not say clearly which it was.
    """

    tokens: list[int]
    logprobs: list[float]
    drawn: int | None


class UntoldError(Exception):
    """The server drew a token without saying which, and went on."""


@dataclass(frozen=True, kw_only=True)
class Dialect(ABC):
    """A server's way to complete texts.

    It names so many likeliest tokens, of texts of at most `context` tokens, and writes `slots`
    texts at once. `one_place`: what it computed of a text it has only where that is written, so
    that it has to have stopped there before it goes on with another.
    """

    path: ClassVar[str]
    one_place: ClassVar[bool]
    model: str
    context: int
    likeliest: int
    slots: int

    @abstractmethod
    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        """A request for the `ahead` tokens after a text, as a stream.

        Raises `ModelServerError` for a text that cannot be sent.
        """

    def spelled(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        """One for a position whose likeliest tokens the server kept to itself, if there is one."""
        return None

    @abstractmethod
    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        """What an event of the stream says behind `told` positions, and whether it is the last.

        Raises `UntoldError`, and `LookupError`, `TypeError` or `ValueError` for what is no such
        event.
        """


def raise_failed(event: dict[str, Any]) -> None:
    """Raises `ModelServerError` for an event that is an error."""
    if error := event.get("error"):
        message = error.get("message", error) if isinstance(error, dict) else error
        raise ModelServerError(
            localizable("server.failed", "the model server failed: {why}", why=str(message))
        )
