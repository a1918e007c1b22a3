"""Targets that reveal little about the device's passages, and the accounting of how much.

The device's part of the mixture is r = lambda p + (1 - lambda) b, where p is its distribution with
passages and b the one without. lambda is the largest value for which the target's distribution
stays within the allowed Renyi divergence of that of lambda = 0, in both directions. This is the
mechanism of DP-Fusion (arXiv 2507.04531), measured on the distribution that is drawn from: after
the mixture with the cloud's distribution, truncation and temperature. The set of tokens that can be
drawn must not depend on the passages: it is what truncation (`top_p`, say) keeps of b mixed with
the cloud's distribution, at lambda = 0.

A mechanism is (a, rho)-RDP if the Renyi divergence of order a between its outputs with the
protected passages and without them is at most rho, in both directions. Such bounds add up over the
tokens of an answer, even where each token was chosen by those before it, as long as their sum is
bounded in advance (a filter: Feldman and Zrnic, arXiv 2008.11193). They convert to (epsilon, delta)
by Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from dragon.sampling.mixture import Side
from dragon.sampling.noise import Floats, Ids
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.truncation import truncated

_BISECTIONS = 24
DELTA = 1e-6
ORDERS = tuple(1.0 + 0.1 * 1.1**step for step in range(100))


@dataclass(frozen=True)
class ReferredSide(Side):
    """A side's distribution, with the one it has without its passages."""

    bare: WireDistribution = field(compare=False)


def bare_of(side: Side) -> WireDistribution:
    """A side's distribution without passages; only for a decoder that has a bare row."""
    assert isinstance(side, ReferredSide), "no bare row was decoded"
    return side.bare


@dataclass(frozen=True, eq=False)
class Bounded:
    """A target's distribution: `log_p` float64 [n] over rising `ids`, sums to 1.

    `share` is lambda, 0 to 1, and `cost` its divergence from the distribution without passages.
    """

    ids: Ids
    log_p: Floats
    share: float
    cost: float


def divergence(log_p: Floats, log_q: Floats, order: float) -> float:
    """The Renyi divergence D_order(p || q) of two distributions over the same tokens, nats."""
    exponents = order * log_p + (1.0 - order) * log_q
    return max(_log_sum(exponents) / (order - 1.0), 0.0)


def bounded(
    private: WireDistribution,
    bare: WireDistribution,
    cloud: WireDistribution,
    sampling: Sampling,
    order: float,
    allowance: float,
) -> Bounded:
    """The target's distribution, half of it the cloud's, at a cost of at most `allowance`."""
    assert sampling.temperature > 0.0
    ids = np.union1d(bare.ids, cloud.ids)
    b = bare.at(ids, bare.weights / bare.total)
    p = private.at(ids, private.weights / private.total)
    p[b == 0.0] = 0.0  # only the passages could have produced it
    public = b + cloud.at(ids, cloud.weights / cloud.total)
    if sampling.truncates:
        kept, _ = truncated(ids, np.rint(public * (1 << 40)).astype(np.int64), sampling)
        inside = np.isin(ids, kept)
        ids, b, p, public = ids[inside], b[inside], p[inside], public[inside]
    without = tempered(public, sampling.temperature)
    if not p.any() or allowance <= 0.0:
        return Bounded(ids, without, 0.0, 0.0)
    # What p gives to other tokens goes to b: the device keeps its mass within the nucleus.
    change = p * b.sum() - b * p.sum()

    def at(share: float) -> Bounded:
        log_p = tempered(np.maximum(public + share * change, 0.0), sampling.temperature)
        there, back = divergence(log_p, without, order), divergence(without, log_p, order)
        return Bounded(ids, log_p, share, max(there, back))

    best = at(1.0)
    if best.cost <= allowance:
        return best
    best, high = Bounded(ids, without, 0.0, 0.0), 1.0
    for _ in range(_BISECTIONS):
        middle = at((best.share + high) / 2.0)
        if middle.cost <= allowance:
            best = middle
        else:
            high = middle.share
    return best


def drawn(ids: Ids, log_p: Floats, key: bytes, position: int) -> int:
    """argmax_v log p(v) + G_t(v), with noise that cannot be computed without the key."""
    scores = log_p - np.log(-np.log(_secret_uniform(key, position, ids)))
    return int(ids[np.argmax(scores)])


def tempered(weights: Floats | Ids, temperature: float) -> Floats:
    """The logarithms of weights [n] at a temperature, scaled to a distribution: float64 [n]."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights) / temperature
    return logs - _log_sum(logs)


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    if math.isinf(top):  # a token is possible on one side only
        return top
    return top + math.log(float(np.exp(logs - top).sum()))


def _secret_uniform(key: bytes, position: int, tokens: Ids) -> Floats:
    """Uniform numbers in (0, 1) for token ids [n], from a cryptographic hash of the key."""
    stream = hashlib.shake_128(key + position.to_bytes(8, "big"))
    numbers = np.frombuffer(stream.digest(8 * (int(tokens[-1]) + 1)), dtype="<u8")[tokens]
    uniform: Floats = ((numbers >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return uniform


def epsilon_of(order: float, rdp: float) -> float:
    """The epsilon of (order, rdp)-RDP at `DELTA`; 0 if nothing was spent."""
    if rdp == 0.0:
        return 0.0
    return max(0.0, rdp + _conversion(order))


def order_for(epsilon: float) -> float:
    """The best order for an epsilon: with small steps, utility grows with rdp / order."""
    return max(ORDERS, key=lambda order: (epsilon - _conversion(order)) / order)


def rdp_within(order: float, epsilon: float) -> float:
    """The largest RDP of an order that stays within an epsilon; at least 0."""
    return max(0.0, epsilon - _conversion(order))


def _conversion(order: float) -> float:
    return math.log1p(-1.0 / order) - (math.log(DELTA) + math.log(order)) / (order - 1.0)


@dataclass
class Budget:
    """The budget of one answer: `total` RDP of an `order`, at most `share` of it per token."""

    order: float
    total: float
    share: float
    spent: float = 0.0

    @classmethod
    def of(cls, epsilon: float, tokens: int) -> Budget:
        """Split an epsilon into equal shares for the first `tokens` tokens that need one."""
        order = order_for(epsilon)
        total = rdp_within(order, epsilon)
        return cls(order, total, total / tokens)

    @property
    def allowance(self) -> float:
        """The RDP that the next token may spend."""
        return max(0.0, min(self.share, self.total - self.spent))

    @property
    def epsilon(self) -> float:
        return epsilon_of(self.order, self.spent)

    def report(self) -> dict[str, float]:
        allowed = epsilon_of(self.order, self.total)
        return {"allowed": allowed, "spent": self.epsilon, "delta": DELTA}

    def charge(self, rdp: float) -> None:
        self.spent += rdp
        assert self.spent <= self.total * (1.0 + 1e-9), "more was spent than was allowed"
