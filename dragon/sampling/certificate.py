"""Which targets one side can determine alone, whatever the other side's distribution is.

Of p = eta p^d + (1 - eta) p^c only p^d and eta are known. A token's own weight is at least eta
p^d(x); another's is at most eta p^d(v) + 1 - eta, if the cloud puts all its mass on it. So x is the
target if even then no other token is faster in the race of `mixture.paces`:

    eta p^d(x) / E_x^T  >  max over v != x of (eta p^d(v) + 1 - eta) / E_v^T,    E_v = -log U(v).

Truncation can only affect this by dropping x itself. A nucleus keeps x if all other tokens together
weigh less than the nucleus holds: 1 - eta p^d(x) < top_p. `top_k` keeps it if the cloud's mass is
too small to make that many others as heavy as x, and `min_p` if x is heavy enough beside the
heaviest token that the cloud can make.
"""

from __future__ import annotations

import numpy as np

from dragon.sampling import noise
from dragon.sampling.mixture import DOUBT, ETA_ONE, Side, device_weight, paces
from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling
from dragon.sampling.truncation import STEPS, least_likely, steps_of

# If the rest of the vocabulary would leave x the target with a probability below e^-4, skip the
# check: it needs one number per token.
_HOPELESS = 4.0


def certified(
    device: Side, cloud_log_h: int, token: int, sampling: Sampling, position: int, vocabulary: int
) -> bool:
    """Whether the target is `token`, the device's draft, whatever the cloud's distribution is.

    Token ids are below `vocabulary`. False does not mean that the target is another token.
    """
    wire = device.wire
    eta = device_weight(device.log_h, cloud_log_h)
    place = int(np.searchsorted(wire.ids, token))
    own = eta * int(wire.weights[place])
    lift = (ETA_ONE - eta) * wire.total  # the weight of all of the cloud's mass, on the same scale
    if own <= lift:  # fails already if the noise favours neither; otherwise x would need luck
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
    # A token outside our nucleus needs E^T < lift / pace; about V times this bound are that small.
    bound = (lift / pace) ** (1.0 / sampling.temperature)
    if bound * vocabulary > _HOPELESS:
        return False
    if bool((paces(wire.ids, raised, sampling, position) >= pace).any()):
        return False
    others = np.delete(np.arange(vocabulary, dtype=np.int64), wire.ids)
    u = noise.uniform(sampling.seed, sampling.stream, position, others)
    return not len(u) or bool(-np.log(u.max()) > bound * (1.0 + DOUBT))


def _kept(own: int, raised: Ids, lift: int, total: int, sampling: Sampling) -> bool:
    """Whether truncation keeps a token of weight `own`, whatever the cloud's distribution is.

    `raised` int64 [n] are the other tokens' weights, each with all of the cloud's mass, `lift`,
    added; all weights together are 65536 times `total`.
    """
    if sampling.top_p < 1.0 and own <= (STEPS - steps_of(sampling.top_p)) * total:
        return False
    if own < least_likely(int(raised.max()), sampling.min_p):
        return False
    # The cloud's mass goes first to the tokens that need the least to become as heavy.
    needed = np.cumsum(np.sort(np.maximum(own - (raised - lift), 0)))
    return not 0 < sampling.top_k <= int(np.count_nonzero(needed <= lift))
