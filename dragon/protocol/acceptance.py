"""How well the two sides of an answer agree."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Judgement:
    """The target, whether the device's draft and the cloud's are it, and the sides' TV distance."""

    token: int
    kept: tuple[bool, bool]
    tv: float


@dataclass
class Agreement:
    """What the device records at each position where both sides had a distribution.

    `verdicts` say whether the device's own draft is the target, and the cloud's, whatever token a
    frame carried: in catch-up a frame carries the target itself. `tv` sums the distances between
    the two.
    """

    verdicts: list[tuple[bool, bool]] = field(default_factory=list)
    tv: float = 0.0

    def add(self, judgement: Judgement) -> None:
        """Record one position."""
        self.verdicts.append(judgement.kept)
        self.tv += judgement.tv

    def acceptance(self) -> tuple[float, float]:
        """The acceptance rates of the device's and the cloud's drafts, 0 to 1."""
        count = max(1, len(self.verdicts))
        device, cloud = (sum(verdict[side] for verdict in self.verdicts) for side in (0, 1))
        return device / count, cloud / count
