"""How the link to the cloud peer stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragon.localizable import Localizable


@dataclass(frozen=True)
class PeerStatus:
    """The link as people see it. `rtt_ms` is the smoothed round trip, None before the first."""

    state: Literal["connected", "connecting", "refused"]
    rtt_ms: float | None = None
    detail: str = ""

    @property
    def away(self) -> Localizable:
        """Why the cloud takes no part."""
        return Localizable(self.detail or "there is no connection to the cloud", "cloud.unreached")
