"""Estimates that a service makes as it runs: decode delays, the link, acceptance.

The draft window, the stall limit and the scheduler's conditions follow from them. There is no clock
here: callers measure, and pass times in seconds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from dragon.inference.profile import Profile
from dragon.protocol.aggregator_policy import Conditions
from dragon.protocol.messages import MAX_WINDOW, Correction, Draft
from dragon.sampling.role import Role, by_role

# The weight of a new observation.
_WEIGHT = 0.2
# The draft window before any measurement.
_FIRST_WINDOW = 8
# The least time without progress that counts as a desync.
_MIN_STALL_S = 1.0
# Frames from this size on are timed, if the extra time exceeds the jitter of pings.
_BURST_BYTES = 2048
_BURST_S = 0.002
_BURST_SHARE = 0.25
# A ping costs both sides as much as a draft.
_BURST_APART_S = 0.1
_PINGS_KEPT = 64


@dataclass
class Estimate:
    """An exponential moving average that starts at the first value it sees, not at a `guess`."""

    guess: float | None = None
    seen: float | None = None

    @property
    def value(self) -> float | None:
        """The average, or the guess before the first observation."""
        return self.guess if self.seen is None else self.seen

    def add(self, value: float) -> None:
        self.seen = value if self.seen is None else self.seen + _WEIGHT * (value - self.seen)


class DecodeDelay:
    """Seconds a decode step takes at a context of t tokens, c(t) = k_a t / k_b + k_c.

    The intercept k_c comes from the offline profile and stays; a step of c seconds at t moves k_a
    towards (c - k_c) t and k_b towards t^2, both of them means (DRAGON, arXiv 2504.11197, section
    5.2, corrected). Without a profile it is a plain moving average.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self._fit = profile.decode if profile is not None else None
        self._a, self._b = (self._fit.k_a, self._fit.k_b) if self._fit is not None else (0.0, 1.0)
        self._recent = Estimate()
        self._context = 0

    def add(self, seconds: float, context: int) -> None:
        """Add a step that ended with `context` tokens in its longest row."""
        self._recent.add(seconds)
        if self._fit is not None and context > 0:
            self._context = context
            self._a += _WEIGHT * ((seconds - self._fit.k_c) * context - self._a)
            self._b += _WEIGHT * (context**2 - self._b)

    @property
    def value(self) -> float | None:
        """Seconds of a step at the last context; None before any estimate is possible."""
        if self._fit is None:
            return self._recent.value
        context = self._context or self._fit.shortest
        return max(self._a * context / self._b + self._fit.k_c, 1e-6)


class LinkMeter:
    """Round trip and sending bandwidth of a link, from pings on it.

    Bandwidth is measured with a large frame and a ping right behind it: the pong is delayed by the
    frame's bytes over the bandwidth, and by the time the other side takes to read it. It is thus a
    lower bound, and unknown until some frame was large enough to stand out from the pings.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self._profile = profile
        self.round_trip = Estimate(profile.rtt_s if profile is not None else None)
        self.bandwidth = Estimate(profile.sending if profile is not None else None)
        self._numbers = itertools.count()
        self._sent: dict[int, tuple[float, int]] = {}
        self._burst = -math.inf  # when a ping last followed a frame

    def anew(self) -> LinkMeter:
        return LinkMeter(self._profile)

    def ping(self, now: float, behind: int = 0) -> int:
        """The number of a ping sent now, right behind a frame of `behind` bytes."""
        number = next(self._numbers)
        self._sent[number] = now, behind
        if behind:
            self._burst = now
        if len(self._sent) > _PINGS_KEPT:
            del self._sent[min(self._sent)]
        return number

    def pong(self, number: int, now: float) -> None:
        """Record a pong; one that answers no ping is ignored."""
        if number not in self._sent:
            return
        sent, behind = self._sent.pop(number)
        if not behind:
            self.round_trip.add(now - sent)
        elif self.round_trip.value is not None:
            extra = now - sent - self.round_trip.value
            if extra > max(_BURST_S, _BURST_SHARE * self.round_trip.value):
                self.bandwidth.add(behind / extra)

    def wants_ping(self, size: int, now: float) -> bool:
        """Whether a frame of this size is worth a ping behind it: one at a time, and rarely."""
        if size < _BURST_BYTES or now - self._burst < _BURST_APART_S:
            return False
        return not any(behind for _, behind in self._sent.values())

    def oldest(self, now: float) -> float:
        """When the oldest unanswered ping was sent; `now` if there is none."""
        return min((sent for sent, _ in self._sent.values()), default=now)


def draft_window(rtt_s: float, decode_s: float, remote_s: float = 0.0) -> int:
    """W = ceil((rtt + c + max(c_remote, 2 (c_remote - c))) / c), at most `MAX_WINDOW`.

    That covers a round trip and a step of the remote side; for a much slower one two steps: the one
    in which it catches up and the next, for which as many drafts are needed again.
    """
    remote_s = max(remote_s, 2.0 * (remote_s - decode_s))
    return min(MAX_WINDOW, math.ceil((rtt_s + decode_s + remote_s) / decode_s))


@dataclass(eq=False)
class Pace:
    """Everything a service estimates. `decode` is for its own side, `link` for the connection.

    Another connection brings another `link`.

    Acceptances, 0 to 1, are what the mode provides: shares of accepted drafts in `coupled`,
    expected ones in `speculative`.
    """

    link: LinkMeter
    decode: DecodeDelay
    remote_decode: Estimate = field(default_factory=Estimate)
    accept_device: Estimate = field(default_factory=Estimate)
    accept_cloud: Estimate = field(default_factory=Estimate)

    def observe_remote(self, frame: Draft | Correction) -> None:
        """Record the other side's decode time; its first distribution comes from the prefill."""
        if frame.position > 0 and frame.decode_us > 0:
            self.remote_decode.add(frame.decode_us / 1e6)

    def observe_acceptance(self, device: float, cloud: float) -> None:
        self.accept_device.add(device)
        self.accept_cloud.add(cloud)

    def window(self, sharing: int = 1) -> int:
        """How far to draft ahead; a guess before any measurement.

        `sharing` is how many answers share the engine. Drafting ahead fills idle time; if other
        answers fill it, drafts delay them: a rejected draft costs them its share of a step, and an
        accepted one saves only the other side's lag. With about as many accepted as rejected that
        does not pay, so no token is drafted before its prefix is certain.
        """
        rtt, decode = self.link.round_trip.value, self.decode.value
        if rtt is None or not decode:
            return _FIRST_WINDOW
        remote = self.remote_decode.value or 0.0
        if sharing > 1 and rtt + abs(remote - decode) < decode * (sharing - 1) / sharing:
            return 1
        return draft_window(rtt, decode, remote)

    def stall_limit(self) -> float:
        """Seconds without any activity that count as a stall: max(1 s, 4 (rtt + c))."""
        slower = max(self.decode.value or 0.0, self.remote_decode.value or 0.0)
        return max(_MIN_STALL_S, 4.0 * ((self.link.round_trip.value or 0.0) + slower))

    def conditions(self, role: Role) -> Conditions | None:
        """The scheduler's conditions as `role` sees them; None until all were measured."""
        own, remote, rtt = self.decode.value, self.remote_decode.value, self.link.round_trip.value
        accept = self.accept_device.value, self.accept_cloud.value
        if own is None or remote is None or rtt is None or accept[0] is None or accept[1] is None:
            return None
        return Conditions(*by_role(role, own, remote), rtt, accept[0], accept[1])

    def reading(self, name: str) -> float:
        """One of `READINGS`; NaN while unknown."""
        values = {
            "decode_seconds": self.decode.value,
            "remote_decode_seconds": self.remote_decode.value,
            "round_trip_seconds": self.link.round_trip.value,
            "bandwidth_bytes": self.link.bandwidth.value,
            "accept_device": self.accept_device.value,
            "accept_cloud": self.accept_cloud.value,
            "draft_window": self.window(),
        }
        value = values[name]
        return math.nan if value is None else value


# The readings that a service exports, with a description of each.
READINGS = {
    "decode_seconds": "What a decode step of this side takes, estimated.",
    "remote_decode_seconds": "What a decode step of the other side takes, by its frames.",
    "round_trip_seconds": "Round trip of the link, by pings.",
    "bandwidth_bytes": "Bytes a second this side can send, at least, by large frames.",
    "accept_device": "Share of the device's drafts that are taken.",
    "accept_cloud": "Share of the cloud's drafts that are taken.",
    "draft_window": "How many tokens this side drafts ahead.",
}
