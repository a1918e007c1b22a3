"""Which targets can be told from one side alone, whatever the other side's distribution is.

Of p = eta p^d + (1 - eta) p^c only p^d and eta are known. A token's own weight is at least
eta p^d(x), another's at most eta p^d(v) + 1 - eta, where the cloud puts all its mass on it. So x is
the target if even then no other token is faster in the race of `mixture.paces`:

    eta p^d(x) / E_x^T  >  max over v != x of (eta p^d(v) + 1 - eta) / E_v^T,    E_v = -log U(v).

A nucleus of the mixture (`top_p`) can only leave out x itself, which it does not where all other
tokens together weigh less than it holds: 1 - eta p^d(x) < top_p.
"""

from __future__ import annotations

import numpy as np

from dragon.sampling import noise
from dragon.sampling.mixture import (
    DOUBT,
    ETA_ONE,
    TOP_P_STEPS,
    Side,
    device_weight,
    paces,
)
from dragon.sampling.params import Sampling

# Where the rest of the vocabulary would leave x the target with a chance below e^-4, it is not
# looked at: that takes a number for each of its tokens.
_HOPELESS = 4.0


def certified(
    device: Side, cloud_log_h: int, token: int, sampling: Sampling, position: int, vocabulary: int
) -> bool:
    """Whether the target is `token`, the device's draft, whatever the cloud's distribution is.

    Tokens have ids below `vocabulary`. False does not say that the target is another token.
    """
    wire = device.wire
    eta = device_weight(device.log_h, cloud_log_h)
    place = int(np.searchsorted(wire.ids, token))
    own = eta * int(wire.weights[place])
    lift = (ETA_ONE - eta) * wire.total  # what all of the cloud's mass counts, on the same scale
    if own <= lift:  # already where the noise favours neither; with it x would have to be lucky
        return False
    raised = eta * wire.weights + lift
    raised[place] = 0
    if sampling.temperature == 0.0:
        return own > int(raised.max())
    if sampling.top_p < 1.0:
        rest = TOP_P_STEPS - max(1, round(sampling.top_p * TOP_P_STEPS))
        if own <= rest * wire.total:
            return False
    pace = paces(np.array([token]), np.array([own]), sampling, position)[0] * (1.0 - DOUBT)
    if lift >= pace:
        return False
    # Outside of the own nucleus a token needs E^T < lift / pace; of V numbers E some are so small.
    bound = (lift / pace) ** (1.0 / sampling.temperature)
    if bound * vocabulary > _HOPELESS:
        return False
    if bool((paces(wire.ids, raised, sampling, position) >= pace).any()):
        return False
    others = np.delete(np.arange(vocabulary, dtype=np.int64), wire.ids)
    u = noise.uniform(sampling.seed, sampling.stream, position, others)
    return not len(u) or bool(-np.log(u.max()) > bound * (1.0 + DOUBT))
