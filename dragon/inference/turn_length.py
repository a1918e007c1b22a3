"""How many steps a turn of the engine may have, judging by the last turns."""

from __future__ import annotations

# How long a turn shared by several callers may take, with at least this many steps.
_TURN_S = 0.04
_LEAST_STEPS = 8
# How much longer than the households' due a turn may take for those that want more.
_LONGER = 1.25
_FORGET = 0.995


class TurnLength:
    """Models a turn of n steps as lasting a + b n: if steps share a forward, a is most of it."""

    def __init__(self) -> None:
        self.most = _LEAST_STEPS
        """The most steps of a turn that several callers share."""
        self._weight = self._n = self._nn = self._t = self._nt = 0.0

    def add(self, steps: int, seconds: float) -> None:
        """Record a turn's steps and duration."""
        self.most = max(_LEAST_STEPS, int(steps * _TURN_S / seconds))
        self._weight = _FORGET * self._weight + 1
        self._n = _FORGET * self._n + steps
        self._nn = _FORGET * self._nn + steps * steps
        self._t = _FORGET * self._t + seconds
        self._nt = _FORGET * self._nt + steps * seconds

    def most_of_several(self, due: int) -> int:
        """The most steps of a turn that several households share, of which `due` are due to them.

        Others are added as long as the turn takes hardly longer.
        """
        return due + int((_LONGER - 1) * (self._fixed + due))

    @property
    def _fixed(self) -> float:
        """a / b: a turn's fixed cost, in steps."""
        if not self._weight:
            return 0.0
        n, t = self._n / self._weight, self._t / self._weight
        spread = self._nn / self._weight - n * n
        # Turns of equal length do not show it.
        if spread < 0.01 * n * n:
            return 0.0
        b = (self._nt / self._weight - n * t) / spread
        return max(0.0, t / b - n) if b > 0 else n
