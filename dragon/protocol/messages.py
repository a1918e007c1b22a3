"""What the two sessions of an answer tell each other, and what a session asks of its decoder."""

from __future__ import annotations

from dataclasses import dataclass

from dragon.sampling.mixture import Side
from dragon.sampling.role import Role

MAX_WINDOW = 64  # how far a side may draft ahead


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


@dataclass(frozen=True)
class Candidate:
    """Sequencewise only: a side's whole answer, how likely it is under that side, and its log h."""

    incarnation: int
    tokens: tuple[int, ...]
    log_likelihood: float
    log_h: int


@dataclass(frozen=True)
class Score:
    """Sequencewise only: how likely the device's candidate is under the cloud."""

    incarnation: int
    log_likelihood: float


SessionMessage = Draft | Target | Join | Resync | Candidate | Score


@dataclass(frozen=True)
class Work:
    """What the decoder is to run: keep the first `keep` generated tokens it was fed, feed `tokens`.

    `outputs` distributions are wanted: after each of the last tokens, and with `keep` 0 possibly
    the one after the prompt before them.

    The log-likelihood of the `scored` tokens is added to that of the text before them. The first of
    them stands after the tokens kept: they are `tokens`, and perhaps one more that is not fed.
    """

    keep: int
    tokens: tuple[int, ...]
    outputs: int
    version: int
    scored: tuple[int, ...] = ()

    @property
    def logits(self) -> int:
        """After how many of the last tokens logits are needed."""
        return len(self.tokens) if self.scored else min(self.outputs, len(self.tokens))


@dataclass(frozen=True)
class Limits:
    """Where an answer ends: at an end token or after `tokens`; the cloud's context at `horizon`."""

    end_ids: frozenset[int]
    tokens: int
    horizon: int = 1 << 30
