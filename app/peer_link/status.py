"""How the link to the cloud peer stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PeerStatus:
    """The link as people see it. `rtt_ms` is the smoothed round trip, None before the first."""

    state: Literal["connected", "connecting", "refused"]
    rtt_ms: float | None = None
    detail: str = ""
