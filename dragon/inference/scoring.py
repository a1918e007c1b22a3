"""Scoring given tokens: how likely a text is in the full mixture, position by position.

Both sides run the text in their rows, many tokens per forward. The cloud sends its full
distributions, and the device mixes them with its own as it does for drawn tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch

from dragon.errors import DragonError, FrameError, PreemptedError
from dragon.inference.backends.backend import Backend
from dragon.inference.decoder import Decoder
from dragon.inference.distribution import Estimated, alone, full_of, likeliest, log
from dragon.inference.engine import Engine, Outcome
from dragon.protocol.messages import Work
from dragon.sampling.mixture import ETA_ONE, LOG_H_LIMIT, Side, device_weight

# Limits of one forward: other answers wait for it, and its distributions take memory.
MAX_TOKENS = 128
_MAX_BYTES = 32 << 20
# How many positions the cloud may be ahead of the device.
CREDIT = 8
# Rounding may raise a log-probability above 0 by this much.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Scored:
    """A given token: its `Estimated`, the shares of both sides' rows, and the sides' distance."""

    estimated: Estimated
    own: tuple[float, ...]
    cloud: tuple[float, ...] = ()
    tv: float | None = None


@dataclass(frozen=True, eq=False)
class CloudScore:
    """The cloud's part of a position: log h, its rows' shares in the token, log-probabilities."""

    log_h: int
    shares: tuple[float, ...]
    logprobs: torch.Tensor  # float32 [V]

    def pack(self) -> bytes:
        """Encoded for the link: all float32, little-endian."""
        head = np.array([self.log_h, *self.shares], "<f4")
        return head.tobytes() + self.logprobs.numpy().astype("<f4").tobytes()

    @staticmethod
    def size(rows: int, vocab_size: int) -> int:
        return 4 * (1 + rows + vocab_size)

    @classmethod
    def unpack(cls, data: bytes, rows: int) -> CloudScore:
        """The inverse of `pack`; raises `FrameError` for what no model computes."""
        values = np.frombuffer(data, "<f4")
        log_h, shares, logprobs = values[0], values[1 : 1 + rows], values[1 + rows :]
        if not bool(np.isfinite(values).all()) or float(logprobs.max()) > _ROUNDING:
            raise FrameError("a log-probability is finite and not above 0")
        if abs(log_h) > LOG_H_LIMIT or not bool(((shares >= 0) & (shares <= 1 + _ROUNDING)).all()):
            raise FrameError("log h or a share is out of range")
        return cls(int(log_h), tuple(shares.tolist()), torch.from_numpy(logprobs.copy()))

    @classmethod
    def of(cls, side: Side, token: int) -> CloudScore:
        full = full_of(side)
        return cls(side.log_h, tuple(full.shares(token)), full.mixed)


def works(text: Sequence[int], size: int) -> Iterator[Work]:
    """Works that yield the distribution of each token of `text`, at most `size` per forward."""
    fed = tuple(text[:-1])  # nothing follows the last one
    first = fed[:size]
    yield Work(0, first, len(first) + 1, 0)
    for start in range(size, len(fed), size):
        tokens = fed[start : start + size]
        yield Work(start, tokens, len(tokens), 0)


def forward_size(model: Backend, rows: int) -> int:
    return max(1, min(MAX_TOKENS, _MAX_BYTES // (4 * model.vocab_size * (2 * rows + 1))))


def run(engine: Engine, decoder: Decoder, work: Work) -> Future[list[Side]]:
    """The distributions of a work of a prefilled decoder."""
    future: Future[list[Side]] = Future()

    def done(outcome: Outcome) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, DragonError):
            future.set_exception(outcome)
        elif outcome.sides is not None:
            future.set_result(outcome.sides)
        else:
            future.set_exception(PreemptedError("scoring was given up"))

    engine.run(decoder, work, done)
    return future


def scored_alone(side: Side, token: int, top: int) -> Scored:
    full = full_of(side)
    return Scored(alone(full, token, top), tuple(full.shares(token)))


def scored(side: Side, cloud: CloudScore, token: int, top: int) -> Scored:
    """A token of a text in the mixture of both sides; the distance is of full distributions."""
    full = full_of(side)
    eta = device_weight(side.log_h, cloud.log_h) / ETA_ONE
    rest = cloud.logprobs + log(1.0 - eta)
    mixed = torch.logaddexp(full.mixed + log(eta), rest)
    logprob = float(mixed[token])
    share = math.exp(min(0.0, float(rest[token]) - logprob))
    return Scored(
        Estimated(logprob, likeliest(mixed, top), share),
        tuple(full.shares(token)),
        cloud.shares,
        0.5 * float((full.mixed.exp() - cloud.logprobs.exp()).abs().sum()),
    )
