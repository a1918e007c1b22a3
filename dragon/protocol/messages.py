"""The messages between the two sessions of an answer, and a session's work for its decoder."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval, Len

from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.role import Role

MAX_WINDOW = 64  # how far a side may draft ahead
MAX_TOKENS = 1 << 16  # of a text

Token = Annotated[int, Interval(ge=0, lt=1 << 31)]
Tokens = Annotated[tuple[Token, ...], Len(0, MAX_TOKENS)]
Incarnation = Annotated[int, Interval(ge=0, lt=1 << 16)]
# Of a text, in nats, and finite.
LogLikelihood = Annotated[float, Interval(ge=-sys.float_info.max, le=0.0)]


@dataclass(frozen=True)
class Draft:
    """One side's distribution and token for one position.

    `committed` and `checksum` identify the sender's committed prefix; `token` is what the sender's
    next frame is conditioned on, whichever rule chose it. `shares`, sent by a cloud that was asked
    for them, are P(row | token) of its rows.
    """

    incarnation: int
    epoch: int
    position: int
    committed: int
    checksum: int
    token: int
    decode_us: int
    side: Side
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Target:
    """Tokenwise and speculative: the token that the aggregating side chose.

    `device_kept` and `cloud_kept` say whether it is that side's draft; `next` aggregates after it.
    """

    incarnation: int
    position: int
    token: int
    device_kept: bool
    cloud_kept: bool
    next: Role


@dataclass(frozen=True)
class Correction:
    """One-way, from the device: the cloud's drafts stand up to `position`, then come `tokens`.

    At most `MAX_WINDOW` tokens; without any it acknowledges how far the text has come. `checksum`
    is that of the text up to `position`; `decode_us` is the device's decode delay, 0 if unknown.
    """

    incarnation: int
    position: int
    checksum: int
    decode_us: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Join:
    """From the device: its tokens stand. The committed text is now `[:base] + tail`."""

    incarnation: Incarnation
    base: Annotated[int, Interval(ge=0, le=MAX_TOKENS)]
    tail: Tokens


@dataclass(frozen=True)
class Resync:
    """From the cloud: the two sides differ in this incarnation."""

    incarnation: Incarnation


@dataclass(frozen=True)
class Candidate:
    """Sequencewise only: a side's whole answer, its log-likelihood under that side, its log h."""

    incarnation: Incarnation
    tokens: Annotated[tuple[Token, ...], Len(1, MAX_TOKENS)]
    log_likelihood: LogLikelihood
    log_h: Annotated[int, Interval(ge=-LOG_H_LIMIT, le=LOG_H_LIMIT)]


@dataclass(frozen=True)
class Score:
    """Sequencewise only: the log-likelihood of the device's candidate under the cloud."""

    incarnation: Incarnation
    log_likelihood: LogLikelihood


SessionMessage = Draft | Target | Correction | Join | Resync | Candidate | Score


@dataclass(frozen=True)
class Work:
    """A step of the decoder: keep the first `keep` generated tokens it was fed, feed `tokens`.

    It returns `outputs` distributions, one after each of the last tokens. If there is one more
    output than tokens, which needs `keep` 0, the first is the distribution after the prompt.

    The log-likelihood of the `scored` tokens is added to that of the kept ones, which they follow:
    they are `tokens`, and perhaps one more that is not fed.
    """

    keep: int
    tokens: tuple[int, ...]
    outputs: int
    version: int
    scored: tuple[int, ...] = ()

    @property
    def logits(self) -> int:
        """How many of the last tokens need logits."""
        return len(self.tokens) if self.scored else min(self.outputs, len(self.tokens))


@dataclass(frozen=True)
class Limits:
    """An answer ends at an end token or after `tokens`; the cloud's context ends at `horizon`."""

    end_ids: frozenset[int]
    tokens: int
    horizon: int = 1 << 30
