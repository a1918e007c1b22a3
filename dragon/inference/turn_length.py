"""How many steps a turn of the engine may have, by what the last ones have taken."""

from __future__ import annotations

# How long a turn may take that several callers share, but for so many steps.
_TURN_S = 0.04
_LEAST_STEPS = 8
# Of several households' due: so much longer a turn may take for those that want more.
_LONGER = 1.25
_FORGET = 0.995


class TurnLength:
    """Takes a turn of n steps to last a + b n: where steps share a forward, a is most of it."""

    def __init__(self) -> None:
        self.most = _LEAST_STEPS
        """Steps of a turn that callers share."""
        self._weight = self._n = self._nn = self._t = self._nt = 0.0

    def add(self, steps: int, seconds: float) -> None:
        """A turn of so many steps has taken so long."""
        self.most = max(_LEAST_STEPS, int(steps * _TURN_S / seconds))
        self._weight = _FORGET * self._weight + 1
        self._n = _FORGET * self._n + steps
        self._nn = _FORGET * self._nn + steps * steps
        self._t = _FORGET * self._t + seconds
        self._nt = _FORGET * self._nt + steps * seconds

    def most_of_several(self, due: int) -> int:
        """Steps of a turn that households share, to whom so many are due.

        Others are added as far as that takes hardly longer.
        """
        return due + int((_LONGER - 1) * (self._fixed + due))

    @property
    def _fixed(self) -> float:
        """a / b: to how many steps all that comes to which a turn takes beside its steps."""
        if not self._weight:
            return 0.0
        n, t = self._n / self._weight, self._t / self._weight
        spread = self._nn / self._weight - n * n
        # Turns of one length do not tell.
        if spread < 0.01 * n * n:
            return 0.0
        b = (self._nt / self._weight - n * t) / spread
        return max(0.0, t / b - n) if b > 0 else n
