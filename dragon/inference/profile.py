"""The profile that `dragon profile` measures here: a service's first estimates, and calibration.

DRAGON, arXiv 2504.11197, section 5.2: the delay of a decode step grows with the context.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragon.inference.backends.backend import Backend
from dragon.inference.decoder import Decoder, step
from dragon.inference.rows import Row
from dragon.protocol.messages import Work
from dragon.sampling.params import MAX_SLOPE

log = logging.getLogger(__name__)

FILE = "profile.json"
CHUNK_TOKENS = 64
# Longer contexts are not measured but extrapolated by the fitted line.
_MAX_STEPS = 192
_RUNS = 3
_WARM_UP = 3


class _Measured(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DecodeFit(_Measured):
    """c(t) = k_a t / k_b + k_c seconds at a context of t tokens, from `shortest` tokens on."""

    k_a: float
    k_b: float = Field(gt=0)
    k_c: float
    shortest: int = Field(ge=1)

    @classmethod
    def of(cls, contexts: Sequence[int], seconds: Sequence[float]) -> DecodeFit:
        """The line with the least squared error; k_a = mean((c - k_c) t), k_b = mean(t^2)."""
        t, c = np.asarray(contexts, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
        spread = t - t.mean()
        slope = float(spread @ c / max(spread @ spread, 1e-12))
        k_c = float(c.mean() - slope * t.mean())
        k_a = float(((c - k_c) * t).mean())
        return cls(k_a=k_a, k_b=float((t * t).mean()), k_c=k_c, shortest=int(t.min()))

    def at(self, context: int) -> float:
        return self.k_a * context / self.k_b + self.k_c


class Gain(_Measured):
    """A gain in nats per token, with its standard error over pairs of windows."""

    nats: float
    stderr: float = Field(ge=0)


class Calibration(_Measured):
    """How many nats a unit of cosine weighs in a text to continue, and how that was found.

    It was found on `tokens` of so many `windows`, with the cosines of this `embedder`.
    """

    slope: float = Field(ge=0, le=MAX_SLOPE)
    embedder: str
    windows: int = Field(ge=1)
    tokens: int = Field(ge=1)
    over_uniform: Gain
    over_default: Gain

    def __str__(self) -> str:
        gains = f"{self.over_uniform.nats:.4f} ± {self.over_uniform.stderr:.4f} over equal weights"
        more = f"{self.over_default.nats:.4f} ± {self.over_default.stderr:.4f} over the default"
        return (
            f"{self.slope:.3g} nats, from {self.tokens:,} tokens in {self.windows} windows; "
            f"nats a token: {gains}, {more}"
        )


class Profile(_Measured):
    """Decode delays of one model here, what it was calibrated to, and the link to the peer.

    Bandwidths are in bytes per second; what could not or was not measured is None.
    """

    model: str
    rows: int = Field(ge=1)
    decode: DecodeFit
    rtt_s: float | None = Field(None, ge=0)
    sending: float | None = Field(None, gt=0)
    receiving: float | None = Field(None, gt=0)
    calibration: Calibration | None = None

    @classmethod
    def read(cls, data_dir: Path, model: str) -> Profile | None:
        """The profile in a data directory; None if there is none, or it is of another model."""
        try:
            profile = cls.model_validate_json((data_dir / FILE).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.warning("%s is not used: %s", data_dir / FILE, error)
            return None
        return profile if profile.model == model else None

    def table(self, longest: int) -> dict[str, str]:
        """A table for people; decode delays at the shortest and the longest measured context."""
        steps = f"decode step, {self.rows} rows"
        measured = {
            f"{steps}, {self.decode.shortest} tokens": (self.decode.at(self.decode.shortest), "ms"),
            f"{steps}, {longest} tokens": (self.decode.at(longest), "ms"),
            "round trip": (self.rtt_s, "ms"),
            "bandwidth to the peer": (self.sending, "MB/s"),
            "bandwidth from the peer": (self.receiving, "MB/s"),
        }
        scales = {"ms": 1e3, "MB/s": 1e-6}
        return {
            name: "not measured" if value is None else f"{value * scales[unit]:.2f} {unit}"
            for name, (value, unit) in measured.items()
        } | {"a unit of cosine": str(self.calibration or "not calibrated")}

    def write(self, data_dir: Path) -> Path:
        path = data_dir / FILE
        path.write_text(self.model_dump_json(indent=2) + "\n")
        return path


def decode_delays(
    model: Backend, rows: int, *, steps: int = _MAX_STEPS
) -> tuple[list[int], list[float]]:
    """Contexts, in tokens, and the seconds of a step that ends there, averaged over runs.

    Rows of random tokens stand for documents; they are prefilled, then decoded with random tokens
    until the context or `steps` ends.
    """
    runs = [list(_run(model, rows, steps, random.Random(run))) for run in range(_RUNS)]
    seconds = [sum(delays) / _RUNS for delays in zip(*runs, strict=True)]
    first = CHUNK_TOKENS + 1 + _WARM_UP
    return list(range(first + 1, first + 1 + len(seconds) - _WARM_UP)), seconds[_WARM_UP:]


def _run(model: Backend, rows: int, steps: int, chance: random.Random) -> Iterator[float]:
    def tokens(count: int) -> tuple[int, ...]:
        return tuple(chance.randrange(model.vocab_size) for _ in range(count))

    chunks = [Row(tokens(CHUNK_TOKENS), 0.0) for _ in range(min(rows, model.cache.slots))]
    decoder = Decoder(model, chunks, tokens(1), limit=steps)
    acquired = decoder.acquire()
    assert acquired, "nothing else uses the model"
    try:
        decoder.prefill()
        for keep in range(min(decoder.horizon, steps)):
            began = time.perf_counter()
            step(model, [decoder], [Work(keep, tokens(1), 1, 0)])
            yield time.perf_counter() - began
    finally:
        decoder.release()
