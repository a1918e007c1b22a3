"""Renyi differential privacy accounting: what an answer's privacy bound costs and what is left.

A mechanism is (a, rho)-RDP if the Renyi divergence of order a between its outputs with the
protected passages and without them is at most rho, in both directions. Such bounds add up over the
tokens of an answer, even where each token was chosen by those before it, as long as their sum is
bounded in advance (a filter: Feldman and Zrnic, arXiv 2008.11193). They convert to (epsilon, delta)
by Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DELTA = 1e-6
ORDERS = tuple(1.0 + 0.1 * 1.1**step for step in range(100))


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
    """What one answer may spend: `total` RDP of an `order`, at most `share` of it per token."""

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
        """What the next token may spend."""
        return max(0.0, min(self.share, self.total - self.spent))

    @property
    def epsilon(self) -> float:
        """What has been spent, as epsilon at `DELTA`."""
        return epsilon_of(self.order, self.spent)

    def said(self) -> dict[str, float]:
        """Allowed and spent epsilon, at delta."""
        allowed = epsilon_of(self.order, self.total)
        return {"allowed": allowed, "spent": self.epsilon, "delta": DELTA}

    def charge(self, rdp: float) -> None:
        """Spend the measured cost of a token."""
        self.spent += rdp
        assert self.spent <= self.total * (1.0 + 1e-9), "more was spent than was allowed"
