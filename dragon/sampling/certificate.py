"""Which targets can be told from one side alone, whatever the other side's distribution is.

Of p = eta p^d + (1 - eta) p^c only p^d and eta are known. A token's own weight is at least
eta p^d(x), another's at most eta p^d(v) + 1 - eta, where the cloud puts all its mass on it. So x is
the target if even then no other token is faster in the race of `mixture.paces`:

    eta p^d(x) / E_x^T  >  max over v != x of (eta p^d(v) + 1 - eta) / E_v^T,    E_v = -log U(v).

What truncates the mixture can only leave out x itself. A nucleus does not where all other tokens
together weigh less than it holds: 1 - eta p^d(x) < top_p. `top_k` does not where the cloud's mass
does not suffice to make so many others as heavy as x, and `min_p` does not where x weighs enough
beside the heaviest that the cloud can make.
"""

from __future__ import annotations

import numpy as np

from dragon.sampling import noise
from dragon.sampling.mixture import DOUBT, ETA_ONE, Side, device_weight, paces
from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling
from dragon.sampling.truncation import STEPS, least_likely, steps_of

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
    if sampling.truncates and not _kept(own, raised, lift, wire.total, sampling):
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


def _kept(own: int, raised: Ids, lift: int, total: int, sampling: Sampling) -> bool:
    """Whether a token of weight `own` may be chosen, whatever the cloud's distribution is.

    `raised` int64 [n] are the others' weights with all of the cloud's mass on each, `lift`; all
    weights together are 65536 times `total`.
    """
    if sampling.top_p < 1.0 and own <= (STEPS - steps_of(sampling.top_p)) * total:
        return False
    if own < least_likely(int(raised.max()), sampling.min_p):
        return False
    # What the cloud spends to make others as heavy: first on those that need the least.
    needed = np.cumsum(np.sort(np.maximum(own - (raised - lift), 0)))
    return not 0 < sampling.top_k <= int(np.count_nonzero(needed <= lift))
