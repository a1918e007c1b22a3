"""The statistics of an answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragon.inference.decoder import CutStatistics
from dragon.inference.estimates import Pace
from dragon.protocol.session import Session


@dataclass
class Record:
    """Times in seconds of the monotonic clock."""

    started: float = field(default_factory=time.monotonic)
    decoding: float | None = None
    first: float | None = None

    def statistics(
        self, session: Session, pace: Pace, tokens: int, *, linked: bool
    ) -> dict[str, float]:
        """The statistics of an answer of `tokens` tokens; `linked` adds the peer's.

        `pace` records the acceptance rates.
        """
        agreement, now = session.agreement, time.monotonic()
        stats = {
            "ttft_ms": 1000 * ((self.first or now) - self.started),
            "prefill_ms": 1000 * ((self.decoding or now) - self.started),
            "ms_per_token": 1000 * (now - (self.decoding or now)) / max(1, tokens),
        }
        if agreement.verdicts:
            stats["accept_device"], stats["accept_cloud"] = agreement.acceptance()
            pace.accept_device.add(stats["accept_device"])
            pace.accept_cloud.add(stats["accept_cloud"])
            stats["tv"] = agreement.tv / len(agreement.verdicts)
            stats["window"] = session.window
        seconds = {"decode_device_ms": pace.decode.value}
        if linked:
            seconds["rtt_ms"] = pace.link.round_trip.value
            seconds["decode_cloud_ms"] = pace.remote_decode.value
        stats |= {name: 1000 * value for name, value in seconds.items() if value is not None}
        return stats


def cut_statistics(cuts: CutStatistics) -> dict[str, float]:
    """What cutting distributions for the wire has cost, averaged over them."""
    if not cuts.count:
        return {}
    return {"wire_mass": cuts.mass / cuts.count, "wire_tv": cuts.tv / cuts.count}


def verdicts(kept: Sequence[tuple[bool, bool]]) -> str:
    """A character per position: both drafts accepted, the device's, the cloud's, or neither."""
    characters = {(True, True): "=", (True, False): "d", (False, True): "c", (False, False): "."}
    return "".join(characters[verdict] for verdict in kept)
