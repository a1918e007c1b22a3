"""How to ask a model server to continue a text, and how it reports each position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dragon.errors import ModelServerError
from dragon.localizable import localizable


@dataclass(frozen=True)
class Position:
    """The likeliest tokens of a position with their log-probabilities, and the token drawn there.

    `drawn` is None if the server does not say clearly which token it was.
    """

    tokens: list[int]
    logprobs: list[float]
    drawn: int | None


class UntoldError(Exception):
    """The server drew a token without saying which, and continued."""


@dataclass(frozen=True, kw_only=True)
class Dialect(ABC):
    """A server's way to complete texts.

    It names the `likeliest` tokens, of texts of at most `context` tokens, and writes `slots` texts
    at once. `one_place`: the server has what it computed for a text only in the place where it
    writes it, so it must stop there before it continues elsewhere.
    """

    path: ClassVar[str]
    one_place: ClassVar[bool]
    model: str
    context: int
    likeliest: int
    slots: int

    @abstractmethod
    def body(self, tokens: Sequence[int], ahead: int) -> dict[str, Any]:
        """The body of a request that streams the `ahead` tokens after a text.

        Raises `ModelServerError` for a text that cannot be sent.
        """

    def spelled(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        """A body that makes the server report a position it withheld; None if there is none."""
        return None

    @abstractmethod
    def positions(self, event: dict[str, Any], told: int) -> tuple[list[Position], bool]:
        """The positions in a stream's event after `told` earlier ones, and whether it is the last.

        Raises `UntoldError`, and `LookupError`, `TypeError` or `ValueError` for a malformed event.
        """


def raise_failed(event: dict[str, Any]) -> None:
    """Raises `ModelServerError` for an event that is an error."""
    if error := event.get("error"):
        message = error.get("message", error) if isinstance(error, dict) else error
        raise ModelServerError(
            localizable("server.failed", "the model server failed: {why}", why=str(message))
        )
