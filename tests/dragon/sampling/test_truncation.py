"""What may be chosen: equal to the slow reference of the target, whichever parameters cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from dragon.sampling.mixture import Side, mixture
from dragon.sampling.params import Sampling
from dragon.sampling.truncation import truncated
from tests.dragon.sampling.test_mixture import samplings, sides, slow_mixture, slow_truncated
from tests.dragon.sampling.test_mixture import truncating as every

IDS = np.array([2, 3, 5, 7, 11], dtype=np.int64)
WEIGHTS = np.array([10, 40, 20, 20, 10], dtype=np.int64)


@given(sides(), sides(), samplings(**every))
def test_equals_the_reference(device: Side, cloud: Side, sampling: Sampling) -> None:
    ids, weights = truncated(*mixture(device, cloud), sampling)
    assert ids.tolist() == sorted(slow_truncated(slow_mixture(device, cloud), sampling))
    assert len(weights) == len(ids)


def test_each_parameter_cuts_as_vllm_defines_it() -> None:
    for fields, kept in (
        ({}, [2, 3, 5, 7, 11]),
        ({"top_k": 2}, [3, 5]),  # of equal ones the lowest
        ({"top_k": 9}, [2, 3, 5, 7, 11]),
        ({"min_p": 0.5}, [3, 5, 7]),
        ({"min_p": 1.0}, [3]),
        ({"top_p": 0.5}, [3, 5]),
        ({"top_p": 0.75}, [3, 5, 7]),
        # Of what the one before leaves: three quarters of the three heaviest.
        ({"top_k": 3, "top_p": 0.75}, [3, 5]),
        ({"min_p": 0.5, "top_k": 4, "top_p": 0.75}, [3, 5]),
    ):
        ids, _ = truncated(IDS, WEIGHTS, Sampling(**fields))  # type: ignore[arg-type]
        assert ids.tolist() == kept, fields
