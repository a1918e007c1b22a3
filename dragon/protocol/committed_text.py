"""The committed text of one side: its tokens, their checksums, what each was drawn from."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from dragon.protocol.messages import Draft
from dragon.sampling.mixture import Side


@dataclass(frozen=True)
class Settled:
    """A committed token and what it was drawn from; `remote` is None if one side wrote alone.

    `shares` are those of the other side's rows in the token, if it is that side's draft and came
    with them.
    """

    position: int
    token: int
    own: Side
    remote: Side | None
    shares: tuple[float, ...] = ()


class CommittedText:
    """Appends to `tokens`, which its creator reads. Only a side that follows the other is ever cut.

    Checksums are CRC-32 over little-endian tokens, of every prefix.
    """

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens
        self._checks = [0]
        for token in tokens:
            self._check(token)
        self._added: list[int] = []
        self._settled: list[Settled] = []

    def checksum(self, length: int) -> int:
        """The checksum of the first `length` tokens."""
        return self._checks[length]

    def add(self, token: int, own: Draft | None = None, remote: Draft | None = None) -> None:
        """Append a token, and note the frames it was drawn from."""
        self._tokens.append(token)
        self._check(token)
        self._added.append(token)
        if own is not None:
            other = None if remote is None else remote.side
            shares = remote.shares if remote is not None and remote.token == token else ()
            self._settled.append(Settled(own.position, token, own.side, other, shares))

    def cut(self, length: int) -> None:
        """Keep only the first `length` tokens."""
        del self._tokens[length:]
        del self._checks[length + 1 :]

    def take_added(self) -> list[int]:
        """Tokens added since the last call."""
        added, self._added = self._added, []
        return added

    def take_settled(self) -> list[Settled]:
        """The own drafts among the tokens added since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def _check(self, token: int) -> None:
        self._checks.append(zlib.crc32(token.to_bytes(4, "little"), self._checks[-1]))
