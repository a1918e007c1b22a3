"""The status of the link to the cloud peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragon.localizable import Localizable


@dataclass(frozen=True)
class PeerStatus:
    """The link as shown to people. `rtt_ms` is the smoothed round trip, None before the first."""

    state: Literal["connected", "connecting", "refused"]
    rtt_ms: float | None = None
    detail: str = ""

    @property
    def away(self) -> Localizable:
        """Why the cloud does not take part."""
        return Localizable(self.detail or "there is no connection to the cloud", "cloud.unreached")
