"""What the two sessions of an answer tell each other, and what a session asks of its decoder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dragon.aggregation import Side


class Role(StrEnum):
    """The device decides when the sides differ; the cloud follows."""

    DEVICE = "device"
    CLOUD = "cloud"


@dataclass(frozen=True)
class Draft:
    """One side's distribution and token for one position.

    `committed` and `checksum` name the sender's committed prefix; `token` is what the sender's next
    frame is conditioned on, whatever rule chose it.
    """

    incarnation: int
    epoch: int
    position: int
    committed: int
    checksum: int
    token: int
    decode_us: int
    side: Side


@dataclass(frozen=True)
class Target:
    """Tokenwise and speculative: the token that the aggregating side took.

    The verdicts say whether it is each side's draft; `next` is who aggregates after it.
    """

    incarnation: int
    position: int
    token: int
    device_kept: bool
    cloud_kept: bool
    next: Role


@dataclass(frozen=True)
class Join:
    """From the device: its tokens stand. The committed text is now `[:base] + tail`."""

    incarnation: int
    base: int
    tail: tuple[int, ...]


@dataclass(frozen=True)
class Resync:
    """From the cloud: the two sides differ, in this incarnation."""

    incarnation: int


SessionMessage = Draft | Target | Join | Resync


@dataclass(frozen=True)
class Work:
    """What the decoder is to run: keep the first `keep` generated tokens it was fed, feed `tokens`.

    `outputs` distributions are wanted: after each of the last tokens, and with `keep` 0 possibly
    the one after the prompt before them.
    """

    keep: int
    tokens: tuple[int, ...]
    outputs: int
    version: int


@dataclass(frozen=True)
class Limits:
    """Where an answer ends: at an end token or after `tokens`; the cloud's context at `horizon`."""

    end_ids: frozenset[int]
    tokens: int
    horizon: int = 1 << 30
