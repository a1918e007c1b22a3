"""The target at little more than the cost of a draft.

The paces of `mixture.paces` are linear in the weights, so the paces of the mixture are a mixture of
those of the two sides. Each side's tokens are raced once per position, for its draft, and only
tokens that reach half of the best pace on one side can be the target. `mixture.target` is the slow
reference. Truncation (`top_p`, say) acts on the mixture itself and is not supported here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dragon.sampling import mixture
from dragon.sampling.mixture import DOUBT, Side
from dragon.sampling.noise import Floats, Ids
from dragon.sampling.params import Sampling


@dataclass(frozen=True, eq=False)
class Race:
    """The race of a side's tokens at a position: `paces` float64 [n] of its ids, and the `best`."""

    side: Side
    paces: Floats
    best: float

    @classmethod
    def run(cls, side: Side, sampling: Sampling, position: int) -> Race:
        """Race all of a side's tokens."""
        assert not sampling.truncates
        paces = mixture.paces(side.wire.ids, side.wire.weights, sampling, position)
        return cls(side, paces, float(paces.max()))

    def reaching(self, pace: float) -> Ids:
        """The ids of the tokens with at least this pace."""
        return self.side.wire.ids[self.paces >= pace]


def draft(race: Race, sampling: Sampling, position: int) -> int:
    """The token a side would take if it were alone."""
    wire, close = race.side.wire, mixture.leading(race.paces)
    return mixture.first(wire.ids[close], wire.weights[close], sampling, position)


def target(device: Race, cloud: Race, sampling: Sampling, position: int) -> int:
    """The token both sides commit."""
    own, other = mixture.factors(device.side, cloud.side)
    # The winner's pace is at least the best of one side alone; half of it comes from one side.
    half = max(own * device.best, other * cloud.best) * (0.5 - DOUBT)
    ids = np.concatenate(
        [
            device.reaching(half / own if own else math.inf),
            cloud.reaching(half / other if other else math.inf),
        ]
    )
    one, two = device.side.wire, cloud.side.wire
    paces = own * one.at(ids, device.paces) + other * two.at(ids, cloud.paces)
    close = np.array(sorted(set(ids[mixture.leading(paces)].tolist())))
    weights = own * one.at(close, one.weights) + other * two.at(close, two.weights)
    return mixture.first(close, weights, sampling, position)
