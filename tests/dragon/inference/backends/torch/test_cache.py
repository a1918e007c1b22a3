"""The slot cache against `transformers`' dynamic one, on three real architectures.

Covers `dragon.inference.backends.torch.model`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    DynamicCache,
    FalconConfig,
    Gemma2Config,
    GPT2Config,
    PretrainedConfig,
    StableLmConfig,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from dragon.errors import ConfigurationError, PreemptedError
from dragon.inference.backends.backend import PIECE
from dragon.inference.backends.torch import cache
from dragon.inference.backends.torch import model as torch_model
from dragon.inference.backends.torch.model import LanguageModel
from tests import tiny

TOLERANCE = 1e-5
ROUNDS = 40
LONG = 3000


@pytest.fixture(scope="module", params=tiny.ARCHITECTURES)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module", params=["reserved", "pool"])
def model(path: Path, request: pytest.FixtureRequest) -> LanguageModel:
    """With all slots taken. A GPU has the pool, which gives the same on a CPU."""
    with patch.object(cache, "_reservable", return_value=request.param == "reserved"):
        loaded = LanguageModel.load(path, tiny.VOCABULARY)
    loaded.cache.acquire(loaded.cache.slots)
    return loaded


@pytest.fixture(scope="module")
def network(path: Path) -> torch.nn.Module:
    """The same weights, without slots."""
    network: torch.nn.Module = AutoModelForCausalLM.from_pretrained(path).eval()
    return network


def assert_alike(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


@torch.inference_mode()
def reference(network: torch.nn.Module, tokens: list[int], outputs: int) -> torch.Tensor:
    """Logits of the last tokens by a dynamic cache fed in two pieces."""
    cache = DynamicCache()
    half = len(tokens) // 2
    if half:
        network(torch.tensor([tokens[:half]]), past_key_values=cache)
    logits = network(torch.tensor([tokens[half:]]), past_key_values=cache).logits[0]
    if len(logits) < outputs:
        logits = network(torch.tensor([tokens])).logits[0]
    return logits[-outputs:]


def test_random_appends_rollbacks_and_batches(
    model: LanguageModel, network: torch.nn.Module
) -> None:
    chance = random.Random(11)
    texts: dict[int, list[int]] = {slot: [] for slot in chance.sample(range(model.cache.slots), 5)}
    for _ in range(ROUNDS):
        slots = chance.sample(list(texts), chance.randint(1, len(texts)))
        length = chance.choice([1, 1, 1, 2, 5, 17])
        for slot in slots:
            kept = chance.randint(0, len(texts[slot]))  # roll back
            del texts[slot][kept if kept + length <= tiny.CONTEXT else 0 :]
        starts = [len(texts[slot]) for slot in slots]
        fed = [[chance.randrange(tiny.VOCABULARY) for _ in range(length)] for _ in slots]
        logits = model.forward(slots, starts, torch.tensor(fed), length)
        for slot, new, got in zip(slots, fed, logits, strict=True):
            texts[slot] += new
            assert_alike(got, reference(network, texts[slot], length))


def test_slots_side_by_side_or_apart_give_the_same_bit_for_bit(model: LanguageModel) -> None:
    texts = [[5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    logits = []
    for slots in ([3, 4, 5], [3, 5, 4], [9, 2, 7]):
        for slot, text in zip(slots, texts, strict=True):
            model.forward([slot], [0], torch.tensor([text]), 1)
        logits.append(model.forward(slots, [4, 2, 3], torch.tensor([[20], [21], [22]]), 1))
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


@pytest.mark.parametrize("fed", [1, 5])
def test_rows_of_any_length_and_number_share_a_forward(
    model: LanguageModel, network: torch.nn.Module, fed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With calls that cost little, so that long and short rows are apart."""
    monkeypatch.setattr(cache, "_CALL", 8)
    chance = random.Random(fed)
    lengths = [3, 400, 5, 410, 390, 2, *(chance.randint(1, 60) for _ in range(14))]
    slots = chance.sample(range(model.cache.slots), len(lengths))
    assert len(cache._groups(lengths)) > 5
    texts = [[chance.randrange(tiny.VOCABULARY) for _ in range(n + fed)] for n in lengths]
    for slot, text, length in zip(slots, texts, lengths, strict=True):
        model.forward([slot], [0], torch.tensor([text[:length]]), 1)
    new = torch.tensor([text[-fed:] for text in texts])
    logits = model.forward(slots, lengths, new, fed)
    for text, got in zip(texts, logits, strict=True):
        assert_alike(got, reference(network, text, fed))
    elsewhere = sorted(slots, reverse=True)
    for slot, text, length in zip(elsewhere, texts, lengths, strict=True):
        model.forward([slot], [0], torch.tensor([text[:length]]), 1)
    assert torch.equal(model.forward(elsewhere, lengths, new, fed), logits)


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=8), st.integers(1, 3))
def test_groups_cost_least(lengths: list[int], threads: int) -> None:
    def cost(cuts: Sequence[int]) -> int:
        return sum(
            cache._CALL * threads + max(lengths[a:b]) * max(threads, b - a)
            for a, b in pairwise(cuts)
        )

    inner = range(1, len(lengths))
    every = [c for k in range(len(lengths)) for c in combinations(inner, k)]
    with patch("torch.get_num_threads", return_value=threads):
        found = cache._groups(lengths)
    assert (found[0], found[-1]) == (0, len(lengths))
    assert cost(found) == min(cost([0, *cuts, len(lengths)]) for cuts in every)


def test_the_last_position_of_the_context(model: LanguageModel, network: torch.nn.Module) -> None:
    tokens = [random.Random(1).randrange(tiny.VOCABULARY) for _ in range(model.context)]
    model.forward([0], [0], torch.tensor([tokens[:-1]]), 1)
    got = model.forward([0], [model.context - 1], torch.tensor([tokens[-1:]]), 1)[0]
    assert_alike(got, reference(network, tokens, 1))


@pytest.mark.parametrize("layout", ["reserved", "pool"])
@torch.inference_mode()
def test_a_long_row_in_pieces(layout: str, tmp_path: Path) -> None:
    """Beside a short one, and with a part of it rolled back."""
    chance = random.Random(3)
    path = tiny.save(tmp_path, context=LONG, layers=2)
    text = [chance.randrange(tiny.VOCABULARY) for _ in range(LONG)]
    with patch.object(cache, "_reservable", return_value=layout == "reserved"):
        model = LanguageModel.load(path, tiny.VOCABULARY)
    network = AutoModelForCausalLM.from_pretrained(path).eval()
    plain = DynamicCache()
    short, row = model.cache.acquire(2) or []
    for start in range(0, LONG - 1, PIECE):
        piece = torch.tensor([text[start : min(start + PIECE, LONG - 1)]])
        model.forward([row], [start], torch.zeros_like(piece), 1)  # and rolled back
        got = model.forward([row], [start], piece, 1)[0]
        assert_alike(got, network(piece, past_key_values=plain, logits_to_keep=1).logits[0])
    model.forward([short], [0], torch.tensor([[5, 6]]), 1)
    both = model.forward([short, row], [2, LONG - 1], torch.tensor([[7], text[-1:]]), 1)
    assert_alike(both[1], network(torch.tensor([text[-1:]]), past_key_values=plain).logits[0])
    assert_alike(both[0], reference(network, [5, 6, 7], 1))


def test_a_preempted_forward_leaves_the_rest_of_the_row(
    model: LanguageModel, network: torch.nn.Module
) -> None:
    model.forward([2], [0], torch.tensor([[5, 6, 7]]), 1)
    calls = iter([False, True])
    with pytest.raises(PreemptedError):
        model.forward([2], [3], torch.tensor([[8]]), 1, cancelled=lambda: next(calls))
    got = model.forward([2], [3], torch.tensor([[9]]), 1)[0]
    assert_alike(got, reference(network, [5, 6, 7, 9], 1))


def test_a_model_that_hands_nothing_of_ours_down_to_its_attention() -> None:
    shape = StableLmConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    network = AutoModelForCausalLM.from_config(shape).eval()
    model = LanguageModel(copy.deepcopy(network), 64, "stablelm")
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10]])
    model.forward([3], [0], tokens[:, :4], 1)
    got = model.forward([3], [4], tokens[:, 4:], 2)
    with torch.inference_mode():
        assert_alike(got, network(tokens).logits[:, -2:])


@pytest.mark.parametrize("fed", [1, 2, 7])
def test_heads_that_share_keys_and_values_agree_with_copies_for_each(
    model: LanguageModel, fed: int
) -> None:
    for slot, text in ((3, [5, 6, 7, 8, 9, 10]), (4, [11, 12]), (7, [13, 14, 15])):
        model.forward([slot], [0], torch.tensor([text]), 1)
    rows = [3, 4, 7], [6, 2, 3], torch.arange(20, 20 + 3 * fed).view(3, fed), fed
    with patch.object(torch_model, "sdpa_attention_forward", torch_model._shared):
        shared = model.forward(*rows)
    with patch.object(torch_model, "_shared", sdpa_attention_forward):
        copied = model.forward(*rows)
    assert_alike(shared, copied)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({}, "sliding"),
        ({"layer_types": ["hybrid_sliding"]}, "sliding"),
        ({"layer_types": ["full_attention"]}, "cap"),
    ],
)
def test_a_model_whose_attention_is_not_plain_is_refused(more: dict[str, Any], what: str) -> None:
    shape = Gemma2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        **more,
    )
    with pytest.raises(ConfigurationError, match=what):
        LanguageModel(AutoModelForCausalLM.from_config(shape), 64, "gemma")


def test_a_bias_of_positions_is_refused() -> None:
    states = torch.zeros(1, 2, 3, 16)
    with pytest.raises(ConfigurationError, match="position bias"):
        torch_model.attend(torch.nn.Module(), states, states, states, None, position_bias=states)


@pytest.mark.parametrize("kind", [BloomConfig, FalconConfig, GPT2Config])
def test_a_model_of_its_own_kind_is_refused(kind: type[PretrainedConfig]) -> None:
    shape = kind(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(ConfigurationError, match=f"{shape.model_type} models, with attention"):
        LanguageModel(AutoModelForCausalLM.from_config(shape), 64, "other")
