"""Which sampling parameters are refused, and by which name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dragon.errors import InvalidRequestError
from dragon.sampling.params import MAX_BIASED, Sampling


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("temperature", {"temperature": -0.1}),
        ("temperature", {"temperature": 2.1}),
        ("temperature", {"temperature": math.nan}),
        ("temperature", {"temperature": math.inf}),
        ("top_p", {"top_p": 0.0}),
        ("top_p", {"top_p": 1.1}),
        ("top_p", {"top_p": math.nan}),
        ("top_k", {"top_k": -1}),
        ("min_p", {"min_p": 1.1}),
        ("min_p", {"min_p": math.nan}),
        ("repetition_penalty", {"repetition_penalty": 0.0}),
        ("repetition_penalty", {"repetition_penalty": 2.1}),
        ("repetition_penalty", {"repetition_penalty": math.nan}),
        ("min_tokens", {"min_tokens": -1}),
        ("seed", {"seed": 1 << 64}),
        ("seed", {"seed": -(1 << 63) - 1}),
        ("n", {"stream": 1 << 32}),
        ("n", {"stream": -1}),
        ("presence_penalty", {"presence_penalty": 2.5}),
        ("frequency_penalty", {"frequency_penalty": math.nan}),
        ("logit_bias", {"logit_bias": ((1, 101.0),)}),
        ("logit_bias", {"logit_bias": ((1, math.nan),)}),
        ("logit_bias", {"logit_bias": ((1, 1.0), (1, 2.0))}),
        ("logit_bias", {"logit_bias": tuple((n, 1.0) for n in range(MAX_BIASED + 1))}),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        Sampling(**fields)
    assert refused.value.param == param


def test_the_ends_of_the_ranges_are_taken() -> None:
    bias = tuple((n, 100.0 * (-1) ** n) for n in range(MAX_BIASED))
    assert Sampling(2.0, 1.0, (1 << 64) - 1, (1 << 32) - 1, bias, -2.0, 2.0).adjusts
    assert not Sampling(0.0, 1e-9, -(1 << 63)).adjusts
